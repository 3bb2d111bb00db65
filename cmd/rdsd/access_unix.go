//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// fileAccess is the mode and the group of a file.
func fileAccess(path string) (mode fs.FileMode, group int, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return info.Mode(), int(st.Gid), true
}
