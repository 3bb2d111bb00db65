package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// maxMemory bounds what one region or operation takes.
const maxMemory = 1 << 30

// regionSpec is what --region says: NAME:SIZE:RIGHTS.
type regionSpec struct {
	name   string
	size   int
	rights mr.Rights
	other  bool // the region is in a domain that no connection has
}

var errRegion = errors.New("want NAME:SIZE:RIGHTS, rights of the letters r (read), w (write), a (atomics), o (other domain), or -")

func parseRegion(s string) (regionSpec, error) {
	part := strings.Split(s, ":")
	if len(part) != 3 || part[0] == "" || part[2] == "" || strings.ContainsAny(part[0], " \t\n") {
		return regionSpec{}, errRegion
	}
	size, err := parseSize(part[1])
	if err != nil {
		return regionSpec{}, err
	}
	if size == 0 {
		return regionSpec{}, errors.New("a region has a size")
	}
	r := regionSpec{name: part[0], size: size}
	if part[2] == "-" {
		return r, nil
	}
	for _, c := range part[2] {
		switch c {
		case 'r':
			r.rights |= mr.RemoteRead
		case 'w':
			r.rights |= mr.LocalWrite | mr.RemoteWrite
		case 'a':
			r.rights |= mr.LocalWrite | mr.RemoteAtomic
		case 'o':
			r.other = true
		default:
			return regionSpec{}, errRegion
		}
	}
	return r, nil
}

// parseSize reads an amount of memory: a number as Go writes them, or a decimal
// one with k, m or g behind it.
func parseSize(s string) (int, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		var number cli.Number
		err = number.Set(s)
		n = uint64(number)
	}
	if err != nil || n > maxMemory {
		return 0, fmt.Errorf("size %q is not in 0..%d", s, maxMemory)
	}
	return int(n), nil
}

// regionList is a pflag.Value of many.
type regionList []regionSpec

func (l *regionList) Set(s string) error {
	r, err := parseRegion(s)
	if err != nil {
		return err
	}
	for _, o := range *l {
		if o.name == r.name {
			return fmt.Errorf("there is a region %s already", r.name)
		}
	}
	*l = append(*l, r)
	return nil
}

func (l *regionList) String() string { return "" }
func (l *regionList) Type() string   { return "name:size:rights" }

// pattern fills memory with what depends on the place and a seed; the C program
// of test/interop/verbs fills its regions alike.
func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(seed + i%251)
	}
}

// sum is the FNV-1a hash of memory, for comparing it with the peer's.
func sum(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
}

// hexOf is how keys and addresses are printed: they are no numbers to a reader of
// JSON whose numbers have 53 bits.
func hexOf[T ~uint16 | ~uint32 | ~uint64](v T) string { return fmt.Sprintf("%#x", uint64(v)) }

// region is the line about a region of serve.
type region struct {
	Type    string `json:"type"` // region
	Name    string `json:"name"`
	Key     string `json:"key"`
	Address string `json:"address"`
	Length  int    `json:"length"`
	Rights  string `json:"rights"`
	Other   bool   `json:"other_domain,omitzero"`
}

func regionLine(r *regionSpec, m *iwarp.MR) region {
	return region{Type: "region", Name: r.name, Key: hexOf(m.Key()), Address: hexOf(m.Base()), Length: r.size, Rights: r.rights.String(), Other: r.other}
}
