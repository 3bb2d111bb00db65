package netlink

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// sizeofTCMsg is the size of struct tcmsg of include/uapi/linux/rtnetlink.h.
const sizeofTCMsg = 20

// Qdiscs lists the kinds of the queueing disciplines of an interface, such as "fq", its own
// and those below.
func Qdiscs(index int) ([]string, error) {
	var kinds []string
	req := append(header(nil, sizeofTCMsg, unix.RTM_GETQDISC, unix.NLM_F_REQUEST|unix.NLM_F_DUMP), make([]byte, sizeofTCMsg)...)
	err := request(unix.NETLINK_ROUTE, req, func(b []byte) error {
		if len(b) < sizeofTCMsg {
			return errMalformed
		}
		if int32(binary.NativeEndian.Uint32(b[4:])) != int32(index) {
			return nil
		}
		for b = b[sizeofTCMsg:]; len(b) >= unix.SizeofNlAttr; {
			size := int(binary.NativeEndian.Uint16(b))
			if size < unix.SizeofNlAttr || size > len(b) {
				return errMalformed
			}
			if binary.NativeEndian.Uint16(b[2:]) == unix.TCA_KIND {
				kinds = append(kinds, strings.TrimRight(string(b[unix.SizeofNlAttr:size]), "\x00"))
			}
			b = b[min((size+3)&^3, len(b)):]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("qdiscs: %w", err)
	}
	return kinds, nil
}
