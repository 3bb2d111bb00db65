//go:build unix && !linux

package objects

// oPath marks nothing: only Linux has descriptors of O_PATH.
const oPath = 0
