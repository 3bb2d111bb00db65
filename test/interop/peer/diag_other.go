//go:build !linux

package peer

import "errors"

// RDSPort is the TCP port of RDS over TCP.
const RDSPort = 16385

func tcpConns() ([]TCPConn, error) { return nil, errors.ErrUnsupported }

func destroy(TCPConn) error { return errors.ErrUnsupported }
