// Package statefile keeps what a daemon's successor has to know: which ports of
// which address had a socket, and up to which sequence number each path of each
// peer was received.
//
// The file is mapped, so that what was stored is there after a SIGKILL too. It
// counts for one boot of the host: the boot id is in front, and the contents of
// another boot are discarded. One process at a time has the file, under a lock.
//
// Layout, numbers in the machine's byte order:
//
//	0       header: magic (8 bytes), boot id (text, 56 bytes)
//	4096    256 names of addresses, 64 bytes each: length, text
//	20480   256 bitmaps of 8192 bytes: bit p%64 of word p/64 is port p
//	2117632 81920 peers of 256 bytes: 1 (used), generation, 8 next sequence
//	        numbers, local and remote address as names, messages taken, time of
//	        the last use (Unix nanoseconds)
//
// A peer has an entry for each of its last generations. The version before had 16384
// entries, without the last two numbers; its contents are taken over.
//
// Pages of slots that are not used are holes.
package statefile
