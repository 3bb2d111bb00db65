// Package statefile keeps what a daemon's successor has to know: which ports of
// which address had a socket, and whose; up to which sequence number each path of
// each peer was received; and the highest sequence number that this host may have
// given to a message.
//
// The file is mapped, so that what was stored is there after a SIGKILL too. It
// counts for one boot of the host: the boot id is in front, and the contents of
// another boot are discarded. One process at a time has the file, under a lock.
//
// Layout, numbers in the machine's byte order:
//
//	0        header: magic (8 bytes), boot id (text, 56 bytes), mark of a file with owners
//	         (8 bytes), highest sequence number (8 bytes)
//	4096     256 names of addresses, 64 bytes each: length, text
//	20480    256 bitmaps of 8192 bytes: bit p%64 of word p/64 is port p
//	2117632  73728 peers of 256 bytes: 1 (used), generation, 8 next sequence
//	         numbers, local and remote address as names, messages taken, time of
//	         the last use (Unix nanoseconds)
//	20992000 8192 owners of 128 bytes
//	22040576 126976 ports of 8 bytes, those that have a bit: number of the owner,
//	         of the address, and the port
//	23056384 2048 service ids of XRC of 16 bytes: id, number of the owner
//
// A peer has an entry for each of its last generations.
//
// A daemon of version 0 knows neither owners nor service ids: the three areas are the end of its
// table of peers. It finds the file in order, with the ports in the bitmaps. Its magic is
// another one, which it writes when it opens the file: the owners count for nothing then.
// The layout before that had 16384 peers, without the last two numbers.
//
// The file is as large as the layout from the start, and takes room in its file system in
// pieces of 16 KiB, each before it is used first: a store to a page that the file system has
// no room for would end the process. A page can go away all the same, when somebody cuts
// the file. Stores to the mapping, here alone, get over that: the process goes on without the
// file.
package statefile
