//go:build !linux

package ipc

import "syscall"

// Peer returns who is at the other end.
func (c *Conn) Peer() (Credentials, error) { return Credentials{}, errSystem }

// PeerOf returns who is at the other end of a Unix socket.
func PeerOf(syscall.Conn) (Credentials, error) { return Credentials{}, errSystem }
