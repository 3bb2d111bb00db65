package fs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrNotMounted is the error of a file system that is mounted nowhere in this process's
// mount namespace, such as inside "ip netns exec", which mounts another /sys.
var ErrNotMounted = errors.New("not mounted")

// Cgroup2 is where the second version of control groups is mounted.
func Cgroup2() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	dir, err := mountOf(f, "cgroup2")
	if err == nil && dir == "" {
		err = fmt.Errorf("cgroup2: %w", ErrNotMounted)
	}
	return dir, err
}

// mountOf is the first mount point of a kind of file system whose root is the file system's
// own; "" if there is none. The format is that of proc_pid_mountinfo(5).
func mountOf(mountinfo io.Reader, kind string) (string, error) {
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 5 && len(rest) >= 1 && rest[0] == kind && fields[3] == "/" {
			return unescape(fields[4]), nil
		}
	}
	return "", lines.Err()
}

// unescape undoes the octal escapes of blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
