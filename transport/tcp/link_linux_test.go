//go:build live

package tcp

import (
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

func TestCountersCount(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	a, b := e.Dial(t, e.Accepted(t))
	rec := transporttest.NewRecorder(t)
	if err := a.Start(rec); err != nil {
		t.Fatal(err)
	}
	s := transporttest.Sender{Link: a}
	for {
		rest, err := s.Try([]transport.Frame{s.Next(200000)})
		if err != nil {
			t.Fatal(err)
		}
		if len(rest) > 0 {
			break
		}
	}
	reader := transporttest.NewRecorder(t)
	if err := b.Start(reader); err != nil {
		t.Fatal(err)
	}
	rec.WaitWritable(t)
	reader.WaitMessages(t, 1) // the kernel may have made room before anything was read
	b.Close(transport.Abort)
	rec.WaitClosed(t)
	got := make(map[string]uint64)
	for _, tr := range []transport.Transport{e.A, e.B} {
		for _, c := range tr.Stats() {
			got[c.Name] += c.Value
		}
	}
	if got["tcp_sndbuf_full"] != 1 || got["tcp_write_space_calls"] != 1 || got["tcp_data_ready_calls"] == 0 ||
		got["tcp_accept_errors"] != 0 || got["tcp_setups_crowded"] != 0 || len(got) != 7 {
		t.Errorf("counters: %v", got)
	}
	if e.A.Name() != "tcp" {
		t.Errorf("Name() = %q", e.A.Name())
	}
}
