// Package wire turns RDS messages into bytes and back: the 48-byte header,
// the extension area inside it, and the congestion map.
//
// The layout is that of Linux, include/uapi/linux/rds.h and net/rds/rds.h
// (struct rds_header). Header fields are big-endian; the congestion map is a
// plain byte array whose bits count from the least significant one
// (net/rds/cong.c). Nothing here allocates, keeps state or reads a clock:
// decoders alias their input, encoders append.
package wire
