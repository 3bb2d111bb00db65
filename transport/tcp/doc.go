// Package tcp carries RDS messages over TCP the way Linux does
// (net/rds/tcp*.c): one connection for each path, port 16385, messages back to
// back with no framing but their headers.
//
// New makes a Transport from Options; its Listen and Dial make links. What is
// below the messages (event loops, sockets, descriptors, writing) is
// internal/gnetloop's; the path in the source port and the cutting of the
// stream, which internal/frame does, are this package's.
//
// # Concurrency
//
// All methods are safe for concurrent use, except that Send of one link may
// be called by one goroutine at a time. Begin, Message and End of a link come
// from its event loop; Writable comes from the goroutine that waits for room,
// and may come before the Send that asked for it has returned. Closed comes
// last, from whichever goroutine was the last to use the link. Handlers may
// call anything but Transport.Close.
//
// # Buffers
//
// A payload given to Message aliases the event loop's read buffer, valid
// during the call, unless it comes with a counted buffer (see
// internal/frame). The memory of frames is not kept.
//
// The package works on Linux; elsewhere New returns an error that is
// errors.ErrUnsupported.
package tcp
