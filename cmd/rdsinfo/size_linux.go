package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// size is that of a terminal, 0 if it is not known.
func size(f *os.File) (columns, rows int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(w.Col), int(w.Row)
}
