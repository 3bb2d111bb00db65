//go:build live

package control

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, path string, snapshot func() (any, error)) io.Closer {
	t.Helper()
	s, err := Serve(path, snapshot)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestFetchReturnsSnapshot(t *testing.T) {
	path := socket(t)
	s := serve(t, path, constant)
	info, err := os.Lstat(path)
	must(t, err)
	if got, want := info.Mode(), fs.ModeSocket|0o660; got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
	var got report
	must(t, Fetch(limit(t), path, &got))
	if want := (report{"node", 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	must(t, s.Close())
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 0 {
		t.Errorf("files left after Close: %v", left)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v, want net.ErrClosed", err)
	}
}

// A request may name parts. A server that knows none answers as to any other request.
func TestFetchNamesParts(t *testing.T) {
	path, plain := socket(t), socket(t)
	with := func(parts []string) (any, error) { return report{strings.Join(parts, "+"), len(parts)}, nil }
	s, err := Config{Path: path, With: with}.Serve(constant)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	serve(t, plain, constant)
	for _, c := range []struct {
		path  string
		parts []string
		want  report
	}{
		{path, nil, report{"node", 7}},
		{path, []string{"a"}, report{"a", 1}},
		{path, []string{"a&b=?", "c"}, report{"a&b=?+c", 2}},
		{plain, []string{"a"}, report{"node", 7}},
	} {
		var got report
		if err := Fetch(limit(t), c.path, &got, c.parts...); err != nil || got != c.want {
			t.Errorf("parts %q: %+v, %v, want %+v", c.parts, got, err, c.want)
		}
	}
}

func TestFetchReportsServersError(t *testing.T) {
	path := socket(t)
	serve(t, path, func() (any, error) { return nil, errors.New("no snapshot today") })
	err := Fetch(limit(t), path, new(report))
	if err == nil || !strings.Contains(err.Error(), "no snapshot today") || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want the server's text and the path", err)
	}
}

func TestFetchReportsUnencodableSnapshot(t *testing.T) {
	path := socket(t)
	serve(t, path, func() (any, error) { return make(chan int), nil })
	if err := Fetch(limit(t), path, new(report)); err == nil {
		t.Error("no error")
	}
}

func TestFetchWithoutServer(t *testing.T) {
	err := Fetch(limit(t), socket(t), new(report))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

func TestFetchEndsWithContext(t *testing.T) {
	path := socket(t)
	l, err := net.Listen("unix", path) // accepts in the kernel, never answers
	must(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	fetched, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		c, err := l.Accept()
		cancel()
		if err == nil {
			<-fetched // the end of the connection must not come before that of ctx
			c.Close()
		}
	}()
	if err := Fetch(ctx, path, new(report)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	close(fetched)
	l.Close()
	<-left
}
