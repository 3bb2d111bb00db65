package iwarp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// modes are the ways in which a stream can be framed.
var modes = map[string]struct {
	cfg    Config
	cp, sp ConnParams
}{
	"crc":           {},
	"no crc":        {cp: ConnParams{NoCRC: true}, sp: ConnParams{NoCRC: true}},
	"small crc":     {cfg: Config{MaxULPDU: 1442}},
	"small":         {cfg: Config{MaxULPDU: 1442}, cp: ConnParams{NoCRC: true}, sp: ConnParams{NoCRC: true}},
	"middle":        {cfg: Config{MaxULPDU: 9000}, cp: ConnParams{NoCRC: true}, sp: ConnParams{NoCRC: true}},
	"markers":       {cp: ConnParams{Markers: true}, sp: ConnParams{Markers: true}},
	"small markers": {cfg: Config{MaxULPDU: 700}, cp: ConnParams{NoCRC: true, Markers: true}, sp: ConnParams{NoCRC: true, Markers: true}},
	"half markers":  {cfg: Config{MaxULPDU: 5000}, cp: ConnParams{Markers: true}},
	"read buffer":   {cfg: Config{ReadBuffer: 4 << 10}, cp: ConnParams{NoCRC: true}, sp: ConnParams{NoCRC: true}},
	"peer to peer":  {cp: ConnParams{PeerToPeer: true}},
	"no guard":      {cp: ConnParams{Guard: -1}},
}

func eachMode(t *testing.T, f func(t *testing.T, client, server *end)) {
	for name, m := range modes {
		inBubble(t, name, func(t *testing.T) {
			client, server := pair(t, m.cfg, m.cp, m.sp)
			f(t, client, server)
		})
	}
}

func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	for i := len(b) &^ 7; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
}

var sizes = []int{0, 1, 7, 64, 1000, 4095, 8192, 65536, 100_001, 1 << 20}
