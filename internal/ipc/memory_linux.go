package ipc

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memfd makes a file of anonymous memory whose size is final.
func memfd(name string, size int) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL) // vm.memfd_noexec=2 insists on this flag
	if err == unix.EINVAL {                                       // Linux before 6.3 does not know the flag
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = f.Truncate(int64(size)); err == nil {
		err = seal(f, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func seal(f *os.File, seals int) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	return os.NewSyscallError("fcntl F_ADD_SEALS", err)
}

// sealWrites forbids all writing but through mappings that exist (Linux 5.1),
// and further seals.
func sealWrites(f *os.File) error { return seal(f, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL) }

// sealSeals forbids further seals.
func sealSeals(f *os.File) error { return seal(f, unix.F_SEAL_SEAL) }

func mmap(f *os.File, size int, write bool) ([]byte, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, prot, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return mem, nil
}

// remap maps f, for reading, where mem is, in one step for whoever reads mem.
func remap(f *os.File, mem []byte) error {
	_, err := unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)), unix.PROT_READ,
		unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return os.NewSyscallError("mmap", err)
}

func munmap(mem []byte) error { return os.NewSyscallError("munmap", unix.Munmap(mem)) }

func discard(mem []byte) { _ = unix.Madvise(mem, unix.MADV_REMOVE) }

// Duplicate returns another descriptor of what f is, to be passed to another process.
func Duplicate(f *os.File) (*os.File, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	if e := rc.Control(func(of uintptr) { fd, err = duplicate(of) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func duplicate(of uintptr) (int, error) {
	fd, err := unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0)
	return fd, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
}

// Touched is how many bytes of a memfd have pages, those included that were swapped out.
func Touched(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0 // the file is closed
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
