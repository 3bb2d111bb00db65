// Package hexfile reads the commented hex files by which tests know the octets of
// a wire format.
package hexfile
