package daemon

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/statefile"
)

// ownerOf is who an application is, for its ports after a restart of the daemon. secret is what
// it has said in its Hello, by which it proves that it is the same one then; none: it cannot.
func ownerOf(cred *ipc.Credentials, secret []byte) *statefile.Owner {
	o := &statefile.Owner{UID: cred.UID, Process: statefile.ProcessOf(cred.PID)}
	if len(secret) > 0 {
		sum := sha256.Sum256(secret)
		copy(o.Secret[:], sum[:])
	}
	if cred.UID == 0 {
		o.Place = placeOf(cred.PID)
	}
	return o
}

// placeOf tells the containers apart whose root is the host's, by their control groups; 0: the
// process is none of a container, because its PID namespace is the daemon's. A process that is out of
// sight, in a namespace beside the daemon's, is of a container of which nothing more is known. What is read
// everybody may read, whatever the daemon's privileges.
func placeOf(pid int) uint64 {
	const unknown = 1
	if pid <= 0 {
		return unknown
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return unknown
	}
	_, ids, ok := strings.Cut(string(status), "\nNSpid:") // its numbers in the namespaces from the daemon's on (Linux 4.1)
	ids, _, _ = strings.Cut(ids, "\n")
	if !ok || len(strings.Fields(ids)) == 1 {
		return 0
	}
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return unknown
	}
	sum := sha256.Sum256(group)
	return binary.NativeEndian.Uint64(sum[:])
}
