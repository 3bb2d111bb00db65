//go:build !linux

package ipc

// Peer returns who is at the other end.
func (c *Conn) Peer() (Credentials, error) { return Credentials{}, errSystem }
