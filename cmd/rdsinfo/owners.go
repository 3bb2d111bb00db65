package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rds-go/rds/ebpf"
)

// process is one that has a socket open.
type process struct {
	pid     int
	command string
}

// owners finds a process for each socket of connections, among those whose descriptors this
// process may see. It reads the descriptors of all of them.
func owners(connections []ebpf.Connection) map[uint64]process {
	wanted := make(map[string]uint64)
	for i := range connections {
		if n := connections[i].Inode; n != 0 {
			wanted[fmt.Sprintf("socket:[%d]", n)] = n
		}
	}
	found := make(map[uint64]process)
	if len(wanted) == 0 {
		return found
	}
	for _, name := range names("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", name)
		var command string
		for _, fd := range names(dir + "/fd") {
			link, err := os.Readlink(dir + "/fd/" + fd)
			inode := wanted[link]
			if err != nil || inode == 0 || found[inode].pid != 0 {
				continue
			}
			if command == "" {
				comm, _ := os.ReadFile(dir + "/comm")
				command = strings.TrimSpace(string(comm))
			}
			found[inode] = process{pid, command}
		}
		if len(found) == len(wanted) {
			break
		}
	}
	return found
}

// names are those in a directory; none if it cannot be read.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	all, _ := f.Readdirnames(-1)
	return all
}
