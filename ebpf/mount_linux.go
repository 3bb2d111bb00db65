package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var mountFeature = &feature{name: "mounting the BPF file system", kernel: "4.4", capabilities: "CAP_SYS_ADMIN"}

// Mount mounts the BPF file system at /sys/fs/bpf, where a directory such as /sys/fs/bpf/rds
// needs it and it is not there, as on hosts without systemd. It tells whether it did. Mounting
// takes CAP_SYS_ADMIN.
func Mount(dir string) (mounted bool, err error) {
	if !strings.HasPrefix(filepath.Clean(dir)+"/", mountPoint+"/") {
		return false, nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(mountPoint, &fs); err != nil {
		if errors.Is(err, os.ErrNotExist) { // the kernel has no BPF, or /sys is not there
			err = fmt.Errorf("%w: there is no %s", ErrNotSupported, mountPoint)
		}
		return false, mountFeature.err(err)
	}
	if uint32(fs.Type) == unix.BPF_FS_MAGIC {
		return false, nil
	}
	if err := unix.Mount("bpf", mountPoint, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return false, mountFeature.err(fmt.Errorf("%s: %w", mountPoint, err))
	}
	return true, nil
}
