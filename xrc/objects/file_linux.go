package objects

import "golang.org/x/sys/unix"

// oPath marks a descriptor of O_PATH, which says that it is open for reading although nobody has
// looked at the permissions of its file.
const oPath = unix.O_PATH
