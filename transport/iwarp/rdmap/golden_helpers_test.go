package rdmap

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// body is what follows DDP's header.
type body interface{ AppendTo(b []byte) []byte }

func tagged(op Op, stag uint32, to uint64) ddp.Tagged {
	return ddp.Tagged{Last: true, ULP: op.Control(), STag: stag, TO: to}
}

func untagged(op Op, msn uint32) ddp.Untagged {
	return ddp.Untagged{Last: true, ULP: op.Control(), QN: op.Queue(), MSN: msn}
}

const rpingText = "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\x00"

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
