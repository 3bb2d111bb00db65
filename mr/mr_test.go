package mr

import (
	"context"
	"testing"
)

func TestRegionLife(t *testing.T) {
	t.Parallel()
	d, err := New(Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	dom, o, r := d.NewDomain(), d.NewOwner(OwnerConfig{}), d.NewReader("r")
	mem := []byte("hello")
	k, err := o.Map(mem, Options{Domain: dom, Rights: RemoteRead, Base: 100})
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Key: k, Domain: dom, Rights: RemoteRead, Addr: 101, Len: 4}
	r.Enter()
	b, f := r.Check(&req)
	if f != None || string(b) != "ello" {
		t.Fatal(string(b), f)
	}
	r.Leave()
	if err := o.FreeInvalidate(context.Background(), k); err != nil {
		t.Fatal(err)
	}
	r.Enter()
	if _, f := r.Check(&req); f != Revoked {
		t.Fatal(f)
	}
	r.Leave()
	r.Close()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
