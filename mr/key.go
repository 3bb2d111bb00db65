package mr

import "fmt"

// Key names one mapping of a region: what verbs call R_Key and L_Key and iWARP
// calls STag. It is the index of a base in the device's table and a version.
//
//	 31                              8 7             0
//	+---------------------------------+---------------+
//	|              index              |    version    |
//	+---------------------------------+---------------+
//
// Each mapping of a base has the version after the one before it. Index 0 is
// never given out, so a Key of zero names nothing.
type Key uint32

const (
	versionBits = 8
	indexBits   = 24
	maxIndex    = 1<<indexBits - 1
)

func makeKey(index uint32, version uint8) Key { return Key(index<<versionBits | uint32(version)) }

// Index is the number of the key's base.
func (k Key) Index() uint32 { return uint32(k) >> versionBits }

// Version tells this mapping of the base from those before and after it.
func (k Key) Version() uint8 { return uint8(k) }

// String shows index and version apart.
func (k Key) String() string { return fmt.Sprintf("%#x.%d", k.Index(), k.Version()) }
