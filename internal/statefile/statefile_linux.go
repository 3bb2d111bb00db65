package statefile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open opens, locks and maps the file.
func open(path string) (*os.File, []byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, err
	}
	mem, err := lock(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, mem, nil
}

func lock(f *os.File) ([]byte, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errInUse
		}
		return nil, os.NewSyscallError("flock", err)
	}
	return mapFile(f)
}

func mapFile(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("statefile: %s is no regular file", f.Name())
	}
	switch info.Size() {
	case size:
	case sizeOne:
		if err := f.Truncate(size); err != nil {
			return nil, err
		}
	default:
		if err := errors.Join(f.Truncate(0), f.Truncate(size)); err != nil {
			return nil, err
		}
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return mem, os.NewSyscallError("mmap", err)
}

// replace puts memory of this process in the place of a mapping.
func replace(mem []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return os.NewSyscallError("mmap", err)
}

// allocate has the file system allocate n bytes at off, and keeps what they say.
func allocate(f *os.File, off, n int) error {
	err := unix.Fallocate(int(f.Fd()), 0, int64(off), int64(n))
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return os.NewSyscallError("fallocate", err)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, int64(off)); err != nil {
		return err
	}
	_, err = f.WriteAt(b, int64(off))
	return err
}

// punch makes a hole of n bytes at off.
func punch(f *os.File, off, n int) error {
	return os.NewSyscallError("fallocate", unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n)))
}

// unlock lets another process have the file, which a mapping alone would not.
func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// bootID tells one boot of the host from the others.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	return id[:min(len(id), bootSize)]
}

// ProcessOf names a process. What the kernel does not tell is 0.
func ProcessOf(pid int) Process {
	p := Process{PID: uint32(max(pid, 0)), Start: startOf(pid)}
	if info, err := os.Stat("/proc/self/ns/pid"); err == nil {
		p.Space = inode(info)
	}
	return p
}

// Ended tells whether the process has ended for sure: a process of another namespace, or one
// that nothing is known of, may go on.
func (p Process) Ended() bool {
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil || p.PID == 0 || inode(info) != p.Space {
		return false
	}
	if errors.Is(unix.Kill(int(p.PID), 0), unix.ESRCH) {
		return true
	}
	start := startOf(int(p.PID))
	return start != 0 && p.Start != 0 && start != p.Start // the number is another process's
}

// startOf is field 22 of /proc/PID/stat (proc_pid_stat(5)), 0 if it cannot be read.
func startOf(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return 0
	}
	v, _ := strconv.ParseUint(fields[19], 10, 64)
	return v
}

func inode(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
