// Package ddp is Direct Data Placement, RFC 5041: the headers of tagged and
// untagged segments, the errors a receiver reports, and the two small state
// machines that watch the order of what arrives.
//
// [Tagged] and [Untagged] are the headers, [Error] is what is wrong with a
// segment. A [Queue] is the receiving end of one untagged queue and a [Run] that
// of the tagged messages of a stream; they say whether a segment may come now.
// Whether memory takes it (STag, access, bounds, a posted buffer) is decided by
// the caller, who owns the memory.
//
// All integers on the wire are big-endian. A segment is what MPA carries as one
// ULPDU; offsets count from its first octet.
//
// # Concurrency
//
// Nothing here locks or starts goroutines. A Queue or Run belongs to the
// goroutine that receives on the stream.
//
// # Buffers
//
// Encoders append to the caller's slice and decoders copy the fields out:
// nothing keeps a reference, nothing allocates.
package ddp
