//go:build !linux

package peer

import "errors"

func tcpConns(uint16, bool) ([]TCPConn, error) { return nil, errors.ErrUnsupported }

func destroy(TCPConn) error { return errors.ErrUnsupported }
