package config

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rds-go/rds/internal/ipc"
)

// UserShares bound what all applications of one user may have together. A share is given
// back when the sockets or sessions end that had it. What is beyond a share is refused with
// ErrQuota.
type UserShares struct {
	// Peers bounds the connections that a user's applications have sent to, or tried to.
	// A connection is given back when the sessions have ended, and what they have sent, or
	// when the connection itself ends. 0 means DefaultUserPeers.
	Peers int
	// Addresses bounds the addresses that a user's sockets are bound to, where the node has
	// no list of addresses. 0 means DefaultUserAddresses. Such a node listens on an address
	// until it closes, and on 256 at most: where users do not trust each other, set
	// Node.Addresses.
	Addresses int
	// Sockets bounds the sockets of a user, those included that linger. 0 means
	// DefaultUserSockets.
	Sockets int
	// Memory bounds the shared memory that a user's applications, and the daemon for them,
	// have touched, in bytes; what is merely reserved does not count. 0 means an eighth of
	// the host's memory, or of what the process's control group may have if that is less.
	Memory int64
	// Regions bounds the memory regions of each size, and Pinned their bytes. 0 lets a user
	// have as many regions as the user leaves free.
	Regions int
	Pinned  int64
	// Exempt are users without shares. MaxSessionsPerUID binds them too.
	Exempt []uint32
}

// Defaults of UserShares: an eighth of what there is.
const (
	DefaultUserPeers     = ipc.MaxPeers / 8
	DefaultUserAddresses = MaxAddresses / 8
	DefaultUserSockets   = (1 << 16) / 8
)

func (c *UserShares) setDefaults() {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Peers, DefaultUserPeers)
	def(&c.Addresses, DefaultUserAddresses)
	def(&c.Sockets, DefaultUserSockets)
	if c.Memory == 0 {
		c.Memory = defaultUserMemory()
	}
}

// check tells what is out of bounds.
func (c *UserShares) check(bad func(field, why string, v any)) {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"Peers", int64(c.Peers)}, {"Addresses", int64(c.Addresses)}, {"Sockets", int64(c.Sockets)}, {"Memory", c.Memory}, {"Regions", int64(c.Regions)}, {"Pinned", c.Pinned},
	} {
		if f.v < 0 {
			bad("Users."+f.name, "must not be negative", f.v)
		}
	}
}

// Binds tells whether the shares bind a user.
func (c *UserShares) Binds(uid uint32) bool { return !slices.Contains(c.Exempt, uid) }

// HostMemory is the memory of the host, or what the process's control group may have of it
// if that is less. It is math.MaxInt64 where the system does not tell.
func HostMemory(root fs.FS) int64 {
	most := int64(math.MaxInt64)
	if b, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) >= 2 && f[0] == "MemTotal:" {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 {
					most = n << 10
				}
			}
		}
	}
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return most
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		if f[1] == "memory" { // version 1
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if f[1] != "" {
			continue
		}
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) { // limits of the groups around it count, too
			if b, err := fs.ReadFile(root, path.Join(base, dir, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 { // the file may say "max"
					most = min(most, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return most
}

// defaultUserMemory is an eighth of the host's memory.
func defaultUserMemory() int64 { return HostMemory(os.DirFS("/")) / 8 }
