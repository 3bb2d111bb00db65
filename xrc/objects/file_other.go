//go:build !unix

package objects

import "os"

// pin needs inodes.
func pin(int) (*os.File, inode, bool, error) { return nil, inode{}, false, ErrUnsupported }
