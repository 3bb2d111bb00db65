//go:build live

package campaign

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
)

// scale is how much of something a campaign has: more with RDS_LONG.
func scale[T any](short, full T) T {
	if long {
		return full
	}
	return short
}

// 1,000 aborts of connections, each under traffic.
func TestAbortsLoseNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, wire string) {
		h := newHosts(t, wire)
		f := h.fault()
		aborts := scale(50, 1000)
		began := time.Now()
		for n := 0; n < aborts; {
			done, err := f.Abort(ebpf.FaultMatch{}, 1)
			rdstest.Must(t, err)
			n += done
			h.flows(20)
		}
		t.Logf("%d aborts in %v", aborts, time.Since(began))
		h.finish()
	})
}

// Drops of 0 to 10 % of the packets, both ways.
func TestDropsLoseNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, wire string) {
		h := newHosts(t, wire)
		f := h.fault()
		step := scale(500*time.Millisecond, 20*time.Second)
		for _, percent := range scale([]float64{0, 1, 10}, []float64{0, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10}) {
			before := h.received.Load()
			if percent == 0 {
				h.pass(step)
				t.Logf("0 %%: %d messages", h.received.Load()-before)
				continue
			}
			r := h.begin(f.Drop(ebpf.FaultMatch{}, ebpf.FaultLimits{Rate: percent / 100, For: time.Minute}))
			h.pass(step)
			h.hits(r)
			c, err := r.Stop()
			h.check(err)
			t.Logf("%v %%: %d messages, %+v", percent, h.received.Load()-before, c)
			h.flows(20)
		}
		h.finish()
	})
}

func TestDuplicatesAreTakenOnce(t *testing.T) {
	eachWire(t, func(t *testing.T, wire string) {
		h := newHosts(t, wire)
		f := h.fault()
		for _, rate := range []float64{0.005, 0.1, 1} {
			r := h.begin(f.Duplicate(ebpf.FaultMatch{}, ebpf.FaultLimits{Rate: rate, For: time.Minute}))
			h.pass(scale(500*time.Millisecond, 20*time.Second))
			h.hits(r)
			c, err := r.Stop()
			h.check(err)
			t.Logf("%v %%: %+v", 100*rate, c)
		}
		h.finish()
	})
}

// 50 black holes of 0.2 to 5 s.
func TestBlackHolesLoseNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, wire string) {
		h := newHosts(t, wire)
		f := h.fault()
		most := scale(time.Second, 5*time.Second)
		var longest time.Duration
		var all ebpf.FaultCounts
		for range scale(3, 50) {
			d := 200*time.Millisecond + rand.N(most-200*time.Millisecond)
			r := h.begin(f.Blackhole(ebpf.FaultMatch{}, d))
			h.pass(d)
			over := time.Now()
			h.flows(100)
			longest = max(longest, time.Since(over))
			c, err := r.Stop()
			if err != nil || c.Hit != c.Seen { // none, if both hosts wait before they retransmit
				t.Errorf("%v: %+v, %v", d, c, err)
			}
			all.Hit += c.Hit
		}
		if all.Hit == 0 {
			t.Error("nothing was dropped")
		}
		t.Logf("%d packets were dropped; 100 messages arrive within %v of the end of a black hole", all.Hit, longest)
		h.finish()
	})
}

// With CRCs, 10,000 changes of a bit behind TCP's checksum: nothing that has changed is
// delivered, and nothing is lost.
func TestCorruptionIsNotDelivered(t *testing.T) {
	t.Parallel()
	// A changed length makes a frame that does not end: the connection is given up after the
	// limit of silence.
	config := filepath.Join(t.TempDir(), "rdsd.toml")
	rdstest.Must(t, os.WriteFile(config, []byte("[tcp]\nsilence = \"1s\"\n"), 0o600))
	h := newHosts(t, "xrc", "--xrc-crc=on", "--config", config)
	f := h.fault()
	want := scale[uint64](200, 10_000)
	var made uint64
	began := time.Now()
	for made < want {
		r := h.begin(f.Corrupt(ebpf.FaultMatch{}, ebpf.FaultLimits{Rate: 0.05, Count: want - made, For: 10 * time.Second}))
		before := h.received.Load()
		for !r.Ended() {
			h.pass(10 * time.Millisecond)
		}
		c, err := r.Stop()
		rdstest.Must(t, err)
		made += c.Hit
		t.Logf("%v: %d changes, %d messages meanwhile", time.Since(began), made, h.received.Load()-before)
	}
	h.flows(100)
	found := h.counter("xrc_crc_errors")
	t.Logf("%d changes found by checksums", found)
	if found == 0 || made != want {
		t.Errorf("%d changes, %d found", made, found)
	}
	h.finish()
}

// The command makes the same faults as the package, says what it did, and ends by itself.
func TestCommandMakesFaults(t *testing.T) {
	t.Parallel()
	h := newHosts(t, "tcp")
	for _, args := range [][]string{
		{"drop", "--interface", "eth0", "--rate", "10%", "--for", "500ms"},
		{"drop", "--interface", "eth0", "--peer", h.b.IP4.String(), "--port", "16385", "--direction", "in", "--count", "5"},
		{"duplicate", "--interface", "eth0", "--rate", "0.1", "--for", "300ms"},
		{"blackhole", "--interface", "eth0", "--for", "200ms"},
		{"abort", "--every", "50ms", "--count", "3"},
		{"abort"},
	} {
		args = append([]string{bin.Path("rdsfault")}, append(args, "--json", "--netns", h.a.Name)...)
		status, out, stderr := clitest.Run(t, args[0], args[1:]...)
		var r struct {
			Fault              string
			Seen, Hit, Aborted int
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || r.Fault != args[1] || r.Hit+r.Aborted == 0 {
			t.Errorf("%q: status %d, %s%s", args, status, out, stderr)
		}
		t.Logf("%q: %s", args[1:], out)
		h.flows(20)
	}
	h.finish()
}
