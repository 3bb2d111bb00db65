// Package afrds is thin, typed access to the AF_RDS sockets of a Linux kernel,
// without cgo.
//
// A Conn is one SOCK_SEQPACKET socket of family 21. Its descriptor is
// non-blocking and belongs to the runtime poller, so that deadlines and Close
// end a blocked call as they do for a net.Conn. The options, control messages
// and reports of include/uapi/linux/rds.h have a method or a type each; nothing
// is invented on top.
//
// # Errors
//
// Calls return *os.SyscallError around the errno, net.ErrClosed after Close and
// os.ErrDeadlineExceeded past a deadline. Where the kernel has no RDS, opening
// fails with an error that is ErrNotAvailable and wraps the errno.
//
// # Concurrency
//
// All methods may be called at the same time. Calls with MsgDontWait never wait
// for another goroutine's call; blocking ones of the same direction queue up.
//
// # Buffers
//
// A buffer given to a call is the caller's again when the call returns: the
// kernel copies.
//
// # What a non-blocking descriptor changes
//
// To the kernel every send of this package is a non-blocking one
// (net/rds/send.c, rds_send_mprds_hash). Until the peer has told how many paths
// it has, such messages travel on path 0 and later ones on the path hashed from
// the port; nothing orders the two groups. A program that needs order from the
// very first message pings the peer first: an empty message to port 0, and wait
// for the empty one that comes back from port 0.
//
// Epoll learns of the end of congestion only from a socket that monitors it
// (SetCongestionMonitor): rds_poll adds the wait queue for congestion after a
// send was refused, too late for a descriptor that epoll already knows. SendTo
// therefore waits out congestion with a timer.
//
// # Example
//
//	c, err := afrds.Listen(netip.MustParseAddrPort("192.0.2.1:4000"))
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	_, err = c.SendTo([]byte("hello"), netip.MustParseAddrPort("192.0.2.2:4000"), 0)
package afrds
