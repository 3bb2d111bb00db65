//go:build !linux

package ipc

import "os"

// Bell and Ear are the ends of a doorbell; see pipe_linux.go.
type (
	Bell struct{ f *os.File }
	Ear  struct{ f *os.File }
)

func NewBell() (*Bell, *Ear, error)      { return nil, nil, errSystem }
func OpenBell(f *os.File) (*Bell, error) { return nil, errSystem }
func OpenEar(f *os.File) *Ear            { return &Ear{f} }
func (b *Bell) Ring()                    {}
func (b *Bell) File() *os.File           { return b.f }
func (b *Bell) Close() error             { return b.f.Close() }
func (e *Ear) Wait() error               { return errSystem }
func (e *Ear) File() *os.File            { return e.f }
func (e *Ear) Close() error              { return e.f.Close() }
