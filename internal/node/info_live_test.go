//go:build live

package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// A report is as good through the control socket.
func TestControlSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "c")
	l := newLab(t)
	n := l.node(config.Node{Control: path})
	s := l.bind(n)
	rdstest.MustSend(t, s, rdstest.Nowhere(), make([]byte, 77))
	got, err := FetchInfo(rdstest.Background(t), path)
	rdstest.Must(t, err)
	want, _ := n.Info()
	if len(got.Sockets) != 1 || got.Sockets[0] != want.Sockets[0] || len(got.Counters) != len(want.Counters) ||
		!reflect.DeepEqual(got.SendQueue, want.SendQueue) || got.Connections[0].Remote != want.Connections[0].Remote {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		t.Errorf("%s\nwant\n%s", a, b)
	}
	_, err = New(config.Node{Port: l.Port, Control: path})
	rdstest.WantErr(t, "a second node on the path", err)
	if err := n.Close(); err != nil && !errors.As(err, new(*datagram.DroppedError)) {
		t.Fatal(err)
	}
	_, err = FetchInfo(rdstest.Background(t), path)
	rdstest.WantErr(t, "after Close", err)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file remains: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = FetchInfo(ctx, filepath.Join(dir, "nobody"))
	rdstest.WantErr(t, "nobody there", err)
}

// The objects of XRC are in a report that is asked for them, and in no other.
func TestObjectsAreAskedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c")
	l := newLab(t)
	na, nb := l.node(config.Node{Control: path, Wire: config.WireXRC}), l.node(config.Node{Wire: config.WireXRC})
	a, b := l.bind(na), l.bind(nb)
	rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("x"))
	rdstest.MustRecv(t, b)
	if i, err := na.Info(); err != nil || i.Objects != nil {
		t.Errorf("Info: %+v, %v", i.Objects, err)
	}
	for _, parts := range [][]info.InfoPart{nil, {"weather"}} {
		if i, err := na.Report(parts...); err != nil || i.Objects != nil {
			t.Errorf("Report of %q: %+v, %v", parts, i.Objects, err)
		}
		if i, err := FetchInfo(rdstest.Background(t), path, parts...); err != nil || i.Objects != nil {
			t.Errorf("FetchInfo of %q: %+v, %v", parts, i.Objects, err)
		}
	}
	got, err := FetchInfo(rdstest.Background(t), path, "weather", info.InfoObjects)
	if err != nil || got.Objects == nil || len(got.Counters) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	want, err := na.Report(info.InfoObjects)
	rdstest.Must(t, err)
	o := got.Objects
	if !reflect.DeepEqual(o, want.Objects) || o.Incarnation != na.Xrc.Objects().Incarnation() {
		t.Errorf("by the socket %+v\nwant %+v", o, want.Objects)
	}
	if len(o.Sessions) != 1 || len(o.SRQs) != 1 || len(o.Targets) != 1 || len(o.Initiators) != 1 || len(o.Registrations) != 1 ||
		!o.Targets[0].Connected || o.Targets[0].Peer.Host != b.LocalAddrPort().Addr() {
		t.Errorf("%+v", o)
	}
	if i, err := l.node(config.Node{Wire: config.WireTCP}).Report(info.InfoObjects); err != nil || i.Objects != nil {
		t.Errorf("a node without XRC has %+v, %v", i.Objects, err)
	}
}
