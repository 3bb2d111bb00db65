package transport

// Reserver is a Link whose peer grants octets before they are sent: all its peers
// together never have more under way to a node than that has room for.
//
// Who writes claims octets first, decides then which messages to write, and puts back
// what these do not need: a message that has a sequence number has its octets, too.
// Claim, Unclaim and Want are for who calls Writev, do not block, and write nothing.
type Reserver interface {
	Link
	// Claim takes all octets that are granted and not claimed. They are the caller's,
	// for Writev or Unclaim.
	Claim() int
	// Unclaim puts back octets that were claimed and are not needed.
	Unclaim(n int)
	// Want tells whether n octets can be claimed now. If not the peer is asked for them,
	// and the handler's Writable follows.
	Want(n int) bool
	// Full tells the peer, from any goroutine, that port has no room for messages, or has
	// room again. What the peer is granted after the call reaches it after the news. It
	// returns how many octets it was granted before, in all; false if the link has ended.
	Full(port uint16, full bool) (granted uint64, ok bool)
	// Started is how many octets had come before those that the handler is given
	// messages from. It is for the handler, within Message.
	Started() uint64
}
