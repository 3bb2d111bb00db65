//go:build !unix

package objects

import "os"

// pin needs inodes.
func pin(int) (*os.File, inode, error) { return nil, inode{}, ErrUnsupported }
