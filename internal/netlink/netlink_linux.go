package netlink

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

var errMalformed = errors.New("malformed netlink message")

// header appends the header of a request whose message has size bytes behind the header.
func header(b []byte, size int, kind, flags uint16) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.SizeofNlMsghdr+size))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, 1)    // sequence
	return binary.NativeEndian.AppendUint32(b, 0) // port: the kernel chooses
}

// request sends a request and hands each answer's body to each, until the answer to the request
// is complete.
func request(protocol int, req []byte, each func(body []byte) error) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := messages(buf[:n], each); done || err != nil {
			return err
		}
	}
}

func messages(b []byte, each func([]byte) error) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errMalformed
		}
		body := b[unix.SizeofNlMsghdr:size]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return false, errMalformed
			}
			if errno := -int32(binary.NativeEndian.Uint32(body)); errno != 0 {
				return true, unix.Errno(errno)
			}
			return true, nil
		default:
			if each != nil {
				if err := each(body); err != nil {
					return false, err
				}
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, nil
}
