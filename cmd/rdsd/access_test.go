//go:build !live

package main

import (
	"io/fs"
	"os/user"
	"reflect"
	"testing"

	"github.com/rds-go/rds/rds"
)

// Numbers may be written as numbers or as strings, names as names.
func TestPortRules(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	p := serving(t, `
[[ports]]
range = "4000-4999"
users = [1001, "1002"]
groups = ["1003", 4]
[[ports]]
range = 4000
users = ["`+me.Username+`"]
[[ports]]
range = "1 - 65535"
groups = [0]
`)
	uid, err := userID(me.Username)
	if err != nil || uid != me.Uid {
		t.Fatalf("%s is %s, %v; want %s", me.Username, uid, err, me.Uid)
	}
	var c checks
	want := []rds.PortRule{
		{First: 4000, Last: 4999, UIDs: []uint32{1001, 1002}, GIDs: []uint32{1003, 4}},
		{First: 4000, Last: 4000, UIDs: []uint32{c.account("", "user", word(me.Uid), userID)}},
		{First: 1, Last: 65535, GIDs: []uint32{0}},
	}
	if !reflect.DeepEqual(p.service.Ports, want) {
		t.Errorf("got %+v, want %+v", p.service.Ports, want)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	p := serving(t, "socket_mode = \"0o600\"\ncontrol_mode = 644\ncontrol_group = 1234\n")
	if p.service.Mode != fs.FileMode(0o600) || p.control.Mode != fs.FileMode(0o644) || p.control.Group != 1234 {
		t.Errorf("modes %v and %v, group %d", p.service.Mode, p.control.Mode, p.control.Group)
	}
}

func TestNoSockets(t *testing.T) {
	t.Parallel()
	p := serving(t, "socket = \"none\"\ncontrol = \"none\"\n")
	if p.service.Path != "" || p.control.Path != "" {
		t.Errorf("paths %q and %q", p.service.Path, p.control.Path)
	}
}

// Profiles are there when asked for, and only then.
func TestProfiles(t *testing.T) {
	t.Parallel()
	if p := serving(t, ""); p.control.Extra != nil {
		t.Error("profiles although nobody asked")
	}
	if p := serving(t, "pprof = true\n"); p.control.Extra[profilePath] == nil {
		t.Error("no profiles")
	}
}
