//go:build unix

package bench

import (
	"errors"
	"os"
	"syscall"
)

// openJournal maps a journal, and makes it if it is not there.
func openJournal(name string) (*journal, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = journalWords * wordSize
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(errors.New("map the journal"), os.NewSyscallError("mmap", err))
	}
	return &journal{words: b, unmap: func() error { return syscall.Munmap(b) }}, nil
}
