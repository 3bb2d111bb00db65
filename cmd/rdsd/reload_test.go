//go:build !live

package main

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/rds-go/rds/rds"
)

// reloaded is what the rig does with a file of these settings.
func (r *rig) reloaded(t *testing.T, text string) {
	t.Helper()
	file := write(t, text)
	set := r.set
	r.load = func() (settings, error) {
		read := set
		err := read.load(file)
		return read, err
	}
	r.signals <- syscall.SIGHUP
	r.signals <- syscall.SIGTERM
	must(t, r.run())
}

// keys are those in a field of the first line with a message.
func keys(r *rig, message, field string) (out []string) {
	lines := r.logs.FilterMessage(message).All()
	if len(lines) == 0 {
		return nil
	}
	for _, k := range lines[0].ContextMap()[field].([]any) {
		out = append(out, k.(string))
	}
	return out
}

func TestReload(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.serving = rds.ServiceConfig{Path: "/run/a.sock", Mode: 0o600}
	r.reloaded(t, `
port = 17000
socket = "/elsewhere.sock"
socket_mode = "0666"
drain = "1s"
[sessions]
max = 7
send_budget = 1000
[[ports]]
range = 4000
users = [0]
[tcp]
congestion = "reno"
[log]
level = "warn"
format = "json"
`)
	r.wantLog(t, "reloaded", "needs a restart", "stopping", "stopped")
	if got, want := keys(r, "reloaded", "changed"), []string{"drain", "sessions.max", "sessions.send_budget", "ports", "log.level"}; !reflect.DeepEqual(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
	if got, want := keys(r, "needs a restart", "keys"), []string{"port", "socket", "tcp.congestion", "log.format"}; !reflect.DeepEqual(got, want) {
		t.Errorf("need a restart: %q, want %q", got, want)
	}
	c := r.service.config
	if c.MaxSessions != 7 || c.SendBudget != 1000 || len(c.Ports) != 1 || c.MaxSockets != 1024 {
		t.Errorf("the service has %+v", c)
	}
	if c.Path != "/run/a.sock" || c.Mode != fs.FileMode(0o600) {
		t.Errorf("the service is told another socket: %s %v", c.Path, c.Mode)
	}
	if r.level.Level() != zapcore.WarnLevel || r.set.Drain.Duration != time.Second {
		t.Errorf("level %v, drain %v", r.level.Level(), r.set.Drain)
	}
	if r.set.Port != 16385 {
		t.Errorf("port %d counts as in effect", r.set.Port)
	}
	if len(r.told) != 4 || !strings.HasPrefix(r.told[1], "RELOADING=1\nMONOTONIC_USEC=") || r.told[2] != "READY=1" {
		t.Errorf("told %q", r.told)
	}
}

// What needs a restart is named again until it has one.
func TestReloadTwice(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.signals <- syscall.SIGHUP
	r.reloaded(t, "port = 17000\n[sessions]\nmax = 7\n")
	r.wantLog(t, "reloaded", "needs a restart", "reloaded", "needs a restart", "stopping", "stopped")
	if e := r.logs.FilterMessage("reloaded").All()[1]; len(e.ContextMap()["changed"].([]any)) != 0 {
		t.Errorf("the second reload changed %v", e.ContextMap()["changed"])
	}
}

// A file with mistakes changes nothing, not even what is right in it, and all
// mistakes are told.
func TestBadReloadChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"values", "npaths = 2\nmetrics = \"x\"\n[sessions]\nmax = 7\n[log]\nlevel = \"warn\"\n", `npaths: 2 is neither 1 nor 8; metrics: "x" is not an address and port such as 127.0.0.1:9385`},
		{"keys", "lisen = []\n[sessions]\nmax = 7\nmin = 1\n", ":4: sessions.min: unknown key"},
		{"service", "[sessions]\nmax = 7\n[log]\nlevel = \"warn\"\n", "no"},
	} {
		r := newRig()
		if c.name == "service" {
			r.service.refused = errors.New("no")
		}
		before := r.set
		r.reloaded(t, c.text)
		r.wantLog(t, "not reloaded", "stopping", "stopped")
		if got := r.logs.All()[0].ContextMap()["error"].(string); !strings.HasSuffix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: error %q, want %q", c.name, got, c.want)
		}
		if !reflect.DeepEqual(r.set, before) || r.level.Level() != zapcore.InfoLevel || !reflect.DeepEqual(r.service.config, rds.ServiceConfig{}) {
			t.Errorf("%s: changed to %+v", c.name, r.set)
		}
		if r.told[len(r.told)-2] != "READY=1" {
			t.Errorf("%s: told %q", c.name, r.told)
		}
	}
}

// The node keeps the drain time of its start, so more needs a restart.
func TestLongerDrainNeedsRestart(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.reloaded(t, "drain = \"1m\"\n")
	if got := keys(r, "needs a restart", "keys"); !reflect.DeepEqual(got, []string{"drain"}) {
		t.Errorf("need a restart: %q", got)
	}
	if r.set.Drain.Duration != 5*time.Second {
		t.Errorf("drain %v", r.set.Drain)
	}
}

// Without a file there is nothing to reload, which the service manager still
// has to be told.
func TestReloadWithoutFile(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.signals <- syscall.SIGHUP
	r.signals <- syscall.SIGTERM
	must(t, r.run())
	r.wantLog(t, "nothing to reload: no configuration file", "stopping", "stopped")
	if len(r.told) != 4 || r.told[2] != "READY=1" {
		t.Errorf("told %q", r.told)
	}
}

// reloadable tells whether a running daemon takes the key from its file.
func reloadable(key string) bool {
	return strings.HasPrefix(key, "sessions.") || strings.HasPrefix(key, "users.") || strings.HasPrefix(key, "admission.") || slices.Contains([]string{"ports", "services", "log.level", "drain"}, key)
}

// What is reloaded is what operators are told.
func TestReloadableKeys(t *testing.T) {
	t.Parallel()
	d := newRig().daemon
	eachKey(reflect.ValueOf(&d.set).Elem(), "", func(key string, _ reflect.Value, index []int) {
		read := d.set
		alter(reflect.ValueOf(&read).Elem().FieldByIndex(index))
		next := d.mix(read)
		if got := len(changed(&d.set, &next)) == 1; got != reloadable(key) {
			t.Errorf("%s: reloaded %v, want %v", key, got, reloadable(key))
		}
	})
}

// alter gives a setting another value.
func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1))
	default: // a duration, shorter
		v.Set(reflect.ValueOf(duration{Duration: v.Interface().(duration).Duration - 1}))
	}
}
