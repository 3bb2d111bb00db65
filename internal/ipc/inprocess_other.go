//go:build !linux

package ipc

import "os"

func (p *InProcess) pair() (*Conn, *Conn, error) { return nil, nil, errSystem }

// NewBell fails.
func (c *Conn) NewBell() (*Bell, *Ear, error) { return NewBell() }

// NewWatchedBell fails.
func (c *Conn) NewWatchedBell() (*Bell, *WatchedEar, error) { return NewWatchedBell() }

// OpenBell closes f and fails.
func (c *Conn) OpenBell(f *os.File) (*Bell, error) { return OpenBell(f) }

// OpenEar closes f and fails.
func (c *Conn) OpenEar(f *os.File) (*Ear, error) { return OpenEar(f) }
