// Package rds is Reliable Datagram Sockets for Go: sockets bound to (IP, port) that
// exchange datagrams of up to 1 MiB. Between two sockets datagrams arrive in the order of
// sending and none arrives twice. What became of one its sender can ask (Outgoing.Notify).
//
// All sockets of a node share one connection for each pair of a local and a peer's
// address, or eight (Config.Paths). Peers that run this package or its daemon rdsd are
// spoken to in RDS on XRC, which carries RDMA too; all others in RDS over TCP, as Linux
// speaks it, so a peer may be a Linux kernel. The first connection to a peer finds out which.
//
//	s, err := rds.Listen("10.0.0.1:4000")
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer s.Close()
//
//	ctx := context.Background()
//	if err := s.Send(ctx, s.LocalAddrPort(), []byte("hello")); err != nil {
//		log.Fatal(err)
//	}
//	m, err := s.Recv(ctx)
//	if err != nil {
//		log.Fatal(err)
//	}
//	fmt.Printf("%s, from %v\n", m.Data, m.From)
//	m.Release()
//
// # Getting a socket
//
// Listen binds a socket on the process's shared provider: on a host that has an rdsd a
// Client, whose sockets are the daemon's, elsewhere a Node, which is a whole RDS stack
// inside the process. Open makes a provider of one's own by name. NewNode makes a Node
// with other settings, NewClient and Dial attach to an rdsd, and OpenKernel gives the same
// Socket over the kernel's AF_RDS. Provider.Bind binds a socket to a netip.AddrPort;
// ParseAddr and ResolveAddr make one of text. NewService turns a Node into what rdsd is.
//
// An address has an IP address of this host, or in Listen a host name, and a port. Port 0
// picks a free one. Without an IP address, as in ":4000", a port is at the only address of
// the node or daemon.
//
// # Memory
//
// Send copies its payload before it returns; SendMessage with a Buffer does not. What
// Recv returns is the stack's memory: use it, then Release it. ReadFromAddrPort copies
// instead. Neither way allocates per message. The memory of an RDMA operation must stay as
// it is until the operation's KindStatus message was received, and with rdsd it must be
// memory of Socket.AllocMemory.
//
// # Concurrency
//
// Methods of providers and sockets may be called from any goroutine. Close wakes calls
// that block on what it closes.
//
// # Errors
//
// Methods of providers, services and sockets return *OpError; errors.Is finds this package's
// errors, the errno a Linux RDS socket would give (such as syscall.ENOBUFS), net.ErrClosed
// after Close, os.ErrDeadlineExceeded after a deadline, and the error of a context that
// ended. Validate returns one error that names all fields that are wrong.
package rds
