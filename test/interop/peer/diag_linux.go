package peer

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlink"
)

// tcpConns lists the TCP connections of this network namespace that have a port
// at one end, or what listens there.
func tcpConns(port uint16, listeners bool) ([]TCPConn, error) {
	sockets, err := netlink.TCP(func(s *netlink.Socket) bool {
		return (s.Local.Port() == port || s.Remote.Port() == port) && (s.State == netlink.Listen) == listeners
	})
	list := make([]TCPConn, 0, len(sockets))
	for i := range sockets {
		list = append(list, conn(&sockets[i]))
	}
	return list, err
}

func conn(s *netlink.Socket) TCPConn {
	return TCPConn{Local: s.Local, Remote: s.Remote, Established: s.State == netlink.Established}
}

// destroy aborts a connection as SOCK_DESTROY does: this side's socket fails
// with ECONNABORTED, the other side gets a RST.
func destroy(t TCPConn) error {
	sockets, err := netlink.TCP(func(s *netlink.Socket) bool { return s.Local == t.Local && s.Remote == t.Remote })
	if err != nil {
		return err
	}
	if len(sockets) == 0 {
		return os.NewSyscallError("SOCK_DESTROY", unix.ENOENT)
	}
	return sockets[0].Destroy()
}
