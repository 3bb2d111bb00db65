package hexfile

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Read returns the octets of testdata/NAME.hex. Each of its lines is
//
//	offset  hex...  # field
//
// where a hex word may be repeated as word*count. Offsets are decimal and are
// checked, so that a comment cannot drift away from its octets.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if off, err := strconv.Atoi(words[0]); err != nil || off != len(out) || len(words) < 2 {
			t.Fatalf("%s:%d: %q, but %d octets so far", path, i+1, line, len(out))
		}
		for _, w := range words[1:] {
			w, count, repeated := strings.Cut(w, "*")
			n := 1
			if repeated {
				if n, err = strconv.Atoi(count); err != nil {
					t.Fatalf("%s:%d: %v", path, i+1, err)
				}
			}
			b, err := hex.DecodeString(w)
			if err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			out = append(out, bytes.Repeat(b, n)...)
		}
	}
	return out
}
