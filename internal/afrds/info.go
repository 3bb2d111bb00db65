package afrds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
)

// Report numbers, options of getsockopt (include/uapi/linux/rds.h). The second
// form of each lists IPv6 objects, and IPv4 ones as v4-mapped.
const (
	infoCounters        = 10000
	infoConnections     = 10001
	infoSendMessages    = 10003
	infoRetransMessages = 10004
	infoRecvMessages    = 10005
	infoSockets         = 10006
	infoTCPSockets      = 10007

	info6Connections     = 10011
	info6SendMessages    = 10012
	info6RetransMessages = 10013
	info6RecvMessages    = 10014
	info6Sockets         = 10015
	info6TCPSockets      = 10016
)

// ErrBadRecord is returned for a report whose records have another size than
// this package knows.
var ErrBadRecord = errors.New("afrds: unknown record size in report")

// Counter is one statistic of the kernel (struct rds_info_counter).
type Counter struct {
	Name  string
	Value uint64
}

// ConnectionFlags is the state of a connection's path 0.
type ConnectionFlags uint8

// Bits of ConnectionFlags.
const (
	ConnectionSending    ConnectionFlags = 1
	ConnectionConnecting ConnectionFlags = 2
	ConnectionConnected  ConnectionFlags = 4
)

// Connection is one peer host (struct rds_info_connection); the sequence
// numbers are those of path 0.
type Connection struct {
	NextTx, NextRx uint64
	Local, Remote  netip.Addr
	Transport      string
	Flags          ConnectionFlags
	TOS            uint8
}

// Message is one queued message (struct rds_info_message). Linux 6.1 reports
// both addresses as 0.0.0.0 in the send and retransmit queues of IPv4.
type Message struct {
	Sequence      uint64
	Length        uint32
	Local, Remote netip.AddrPort
	Flags         uint8
	TOS           uint8
}

// SocketInfo is one bound socket (struct rds_info_socket).
type SocketInfo struct {
	SendBuffer    uint32
	ReceiveBuffer uint32
	Bound         netip.AddrPort
	Connected     netip.AddrPort
	Inode         uint64
}

// TCPSocket is the TCP connection under path 0 of a connection (struct
// rds_info_tcp_socket).
type TCPSocket struct {
	Local, Remote    netip.AddrPort
	HeaderRemaining  uint64
	PayloadRemaining uint64
	LastSentNext     uint32
	LastExpectedUna  uint32
	LastSeenUna      uint32
	TOS              uint8
}

// report says how the records of one report look: their size with IPv4 and
// with IPv6 addresses, and how to decode one.
type report[T any] struct {
	size4, size6 int
	parse        func(r *record) T
}

var (
	counterReport    = report[Counter]{40, 0, parseCounter}
	connectionReport = report[Connection]{42, 65, parseConnection}
	messageReport    = report[Message]{26, 50, parseMessage}
	socketReport     = report[SocketInfo]{28, 52, parseSocket}
	tcpSocketReport  = report[TCPSocket]{41, 64, parseTCPSocket}
)

// append decodes all records of b, each of size bytes, behind list.
func (p report[T]) append(list []T, b []byte, size int, v6 bool) ([]T, error) {
	if len(b) == 0 {
		return list, nil
	}
	want := p.size4
	if v6 {
		want = p.size6
	}
	if size != want || want == 0 || len(b)%want != 0 {
		return list, ErrBadRecord
	}
	for ; len(b) > 0; b = b[want:] {
		list = append(list, p.parse(&record{b: b[:want], v6: v6}))
	}
	return list, nil
}

// record reads the fields of one packed record in order. Numbers are in host
// order, addresses and ports in network order. Sizes were checked before.
type record struct {
	b  []byte
	v6 bool
}

func (r *record) take(n int) []byte { f := r.b[:n]; r.b = r.b[n:]; return f }
func (r *record) u8() uint8         { return r.take(1)[0] }
func (r *record) u32() uint32       { return binary.NativeEndian.Uint32(r.take(4)) }
func (r *record) u64() uint64       { return binary.NativeEndian.Uint64(r.take(8)) }
func (r *record) port() uint16      { return binary.BigEndian.Uint16(r.take(2)) }

func (r *record) addr() netip.Addr {
	if r.v6 {
		return netip.AddrFrom16([16]byte(r.take(16))).Unmap()
	}
	return netip.AddrFrom4([4]byte(r.take(4)))
}

func (r *record) text(n int) string {
	f := r.take(n)
	if i := bytes.IndexByte(f, 0); i >= 0 {
		f = f[:i]
	}
	return string(f)
}

// tos reads the last byte of the records that have one.
func (r *record) tos() uint8 {
	if len(r.b) == 0 {
		return 0
	}
	return r.u8()
}

func parseCounter(r *record) Counter {
	return Counter{Name: r.text(32), Value: r.u64()}
}

func parseConnection(r *record) Connection {
	return Connection{
		NextTx: r.u64(), NextRx: r.u64(),
		Local: r.addr(), Remote: r.addr(),
		Transport: r.text(16),
		Flags:     ConnectionFlags(r.u8()),
		TOS:       r.tos(),
	}
}

func parseMessage(r *record) Message {
	m := Message{Sequence: r.u64(), Length: r.u32()}
	local, remote := r.addr(), r.addr()
	m.Local = netip.AddrPortFrom(local, r.port())
	m.Remote = netip.AddrPortFrom(remote, r.port())
	m.Flags, m.TOS = r.u8(), r.tos()
	return m
}

func parseSocket(r *record) SocketInfo {
	s := SocketInfo{SendBuffer: r.u32()}
	bound, connected := r.addr(), r.addr()
	s.Bound = netip.AddrPortFrom(bound, r.port())
	s.Connected = netip.AddrPortFrom(connected, r.port())
	s.ReceiveBuffer, s.Inode = r.u32(), r.u64()
	return s
}

func parseTCPSocket(r *record) TCPSocket {
	var s TCPSocket
	local := r.addr()
	s.Local = netip.AddrPortFrom(local, r.port())
	remote := r.addr()
	s.Remote = netip.AddrPortFrom(remote, r.port())
	s.HeaderRemaining, s.PayloadRemaining = r.u64(), r.u64()
	s.LastSentNext, s.LastExpectedUna, s.LastSeenUna = r.u32(), r.u32(), r.u32()
	s.TOS = r.tos()
	return s
}
