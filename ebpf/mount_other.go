//go:build !linux

package ebpf

// Mount returns an error that Is ErrNotSupported.
func Mount(string) (bool, error) { return false, elsewhere("the BPF file system").err(notHere) }
