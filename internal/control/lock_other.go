//go:build !unix || aix || solaris || illumos

package control

// lockDir does nothing where there is no flock: of two servers that start at
// the same moment both may believe that they have the file.
func lockDir(string) (unlock func()) { return func() {} }
