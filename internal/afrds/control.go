package afrds

import (
	"encoding/binary"
	"errors"
)

// solRDS is the socket option and control message level of RDS.
const solRDS = 276

// Types of control messages on receive (include/uapi/linux/rds.h).
const (
	cmsgRDMADest   = 2 // RDS_CMSG_RDMA_DEST
	cmsgRDMAStatus = 4 // RDS_CMSG_RDMA_STATUS
	cmsgCongUpdate = 5 // RDS_CMSG_CONG_UPDATE
)

// StatusCode is the fate of an RDMA operation.
type StatusCode int32

// Fates of an RDMA operation (include/uapi/linux/rds.h, RDS_RDMA_SUCCESS ...).
const (
	StatusSuccess     StatusCode = 0
	StatusRemoteError StatusCode = 1
	StatusCanceled    StatusCode = 2
	StatusDropped     StatusCode = 3
	StatusOtherError  StatusCode = 4
)

// Status is one completion of an RDMA operation (struct rds_rdma_notify).
type Status struct {
	Token  uint64
	Status StatusCode
}

// Control is the parsed form of the control messages of one receive call.
type Control struct {
	// CongestionUpdate has a bit for each group of ports (port modulo 64)
	// that a refused send may try again. Valid with HasCongestionUpdate.
	CongestionUpdate    uint64
	HasCongestionUpdate bool
	// RDMACookie names memory of the sender. Valid with HasRDMACookie.
	RDMACookie    uint64
	HasRDMACookie bool
	// Statuses are completions, oldest first.
	Statuses []Status
	// Incomplete: the kernel had more control messages than room for them.
	Incomplete bool
}

// errBadControl is returned for control messages whose lengths do not fit.
var errBadControl = errors.New("afrds: malformed control message")

const (
	wordSize       = 4 << (^uint(0) >> 63) // bytes of a C long
	cmsgHeaderSize = wordSize + 8          // struct cmsghdr: length, level, type

	// controlSize is room for one congestion update or a batch of
	// completions; what does not fit comes with the next call.
	controlSize = 512
)

func cmsgAlign(n int) int { return (n + wordSize - 1) &^ (wordSize - 1) }

// parseControl decodes a control buffer. Levels and types it does not know are
// skipped.
func parseControl(b []byte) (Control, error) {
	var c Control
	for len(b) >= cmsgHeaderSize {
		var size uint64
		if wordSize == 8 {
			size = binary.NativeEndian.Uint64(b)
		} else {
			size = uint64(binary.NativeEndian.Uint32(b))
		}
		if size < cmsgHeaderSize || size > uint64(len(b)) {
			return Control{}, errBadControl
		}
		level := int32(binary.NativeEndian.Uint32(b[wordSize:]))
		kind := int32(binary.NativeEndian.Uint32(b[wordSize+4:]))
		if level == solRDS {
			if err := c.add(kind, b[cmsgHeaderSize:size]); err != nil {
				return Control{}, err
			}
		}
		b = b[min(cmsgAlign(int(size)), len(b)):]
	}
	return c, nil
}

func (c *Control) add(kind int32, body []byte) error {
	switch kind {
	case cmsgCongUpdate:
		if len(body) < 8 {
			return errBadControl
		}
		c.CongestionUpdate, c.HasCongestionUpdate = binary.NativeEndian.Uint64(body), true
	case cmsgRDMADest:
		if len(body) < 8 {
			return errBadControl
		}
		c.RDMACookie, c.HasRDMACookie = binary.NativeEndian.Uint64(body), true
	case cmsgRDMAStatus:
		if len(body) < 12 { // 16 with the padding of the struct
			return errBadControl
		}
		c.Statuses = append(c.Statuses, Status{
			Token:  binary.NativeEndian.Uint64(body),
			Status: StatusCode(binary.NativeEndian.Uint32(body[8:])),
		})
	}
	return nil
}
