package mr

import "strings"

// Rights say what a region may be used for; the values are those of verbs'
// access flags. Local reading is always allowed.
type Rights uint8

// The rights. RemoteWrite and RemoteAtomic need LocalWrite.
const (
	LocalWrite Rights = 1 << iota
	RemoteWrite
	RemoteRead
	RemoteAtomic
	allRights = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic
	remote    = RemoteWrite | RemoteRead | RemoteAtomic
)

// Validate returns ErrRights for unknown bits and for rights to change memory
// from outside that its owner may not change.
func (r Rights) Validate() error {
	if r&^allRights != 0 || r&(RemoteWrite|RemoteAtomic) != 0 && r&LocalWrite == 0 {
		return ErrRights
	}
	return nil
}

// String names the bits that are set.
func (r Rights) String() string {
	var s []string
	for i, name := range [...]string{"local-write", "remote-write", "remote-read", "remote-atomic"} {
		if r&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	if r&^allRights != 0 {
		s = append(s, "unknown")
	}
	if len(s) == 0 {
		return "local-read"
	}
	return strings.Join(s, "|")
}
