// Package mr maps memory for remote access: regions, their keys, the check of
// each access, and the invalidation after which memory is its owner's again.
package mr
