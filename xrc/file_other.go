//go:build !unix

package xrc

import "os"

// pin needs inodes.
func pin(int) (*os.File, inode, error) { return nil, inode{}, ErrUnsupported }
