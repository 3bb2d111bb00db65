package conn

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"testing"
)

// Every pair of states: the table of net/rds/threads.c as this package has it.
func TestTransitions(t *testing.T) {
	t.Parallel()
	legal := map[[2]State]bool{
		{Down, Connecting}: true, {Down, Up}: true,
		{Connecting, Down}: true, {Connecting, Up}: true,
		{Up, Down}: true, {Up, Disconnecting}: true, {Up, Resetting}: true, {Up, Error}: true,
		{Disconnecting, Down}: true, {Disconnecting, Resetting}: true,
		{Resetting, Down}: true,
		{Error, Down}:     true, {Error, Resetting}: true,
	}
	for from := Down; from <= Error; from++ {
		for to := Down; to <= Error; to++ {
			p := path{state: from}
			err := p.to(to)
			switch {
			case legal[[2]State{from, to}] && (err != nil || p.state != to):
				t.Errorf("%v to %v: %v, state %v", from, to, err, p.state)
			case !legal[[2]State{from, to}] && (!errors.Is(err, ErrTransition) || p.state != from):
				t.Errorf("%v to %v: %v, state %v", from, to, err, p.state)
			}
		}
	}
}

func TestMustPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p := path{state: Resetting}
	p.must(Up)
}

// The values are those of Linux and what rds-info prints.
func TestStateNames(t *testing.T) {
	t.Parallel()
	for s, want := range []string{"down", "connecting", "disconnecting", "up", "resetting", "error", "state(6)"} {
		if got := State(s).String(); got != want {
			t.Errorf("%d is %q", s, got)
		}
	}
	for k := Dial; k <= WakeAll; k++ {
		if k.String() == "" {
			t.Errorf("action %d has no name", k)
		}
	}
}

// Every counter is added.
func TestCountersAdd(t *testing.T) {
	t.Parallel()
	var a, b Counters
	for i := range reflect.TypeFor[Counters]().NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetUint(uint64(i))
		reflect.ValueOf(&b).Elem().Field(i).SetUint(1000)
	}
	a.Add(b)
	for i := range reflect.TypeFor[Counters]().NumField() {
		if got := reflect.ValueOf(a).Field(i).Uint(); got != uint64(1000+i) {
			t.Errorf("%s is %d", reflect.TypeFor[Counters]().Field(i).Name, got)
		}
	}
}

// TestStatusString: every Status that status.go declares has a name of its own.
func TestStatusString(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		number, ok := v.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		i, err := strconv.Atoi(number.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := statusNames[Status(i)]
		if other := names[name]; !ok || name == "" || other != "" || Status(i).String() != name {
			t.Errorf("%s is %q, and %q is %q", v.Names[0], Status(i), other, name)
		}
		names[name] = v.Names[0].Name
		return true
	})
	if len(names) != len(statusNames) {
		t.Errorf("%d statuses declared, %d names", len(names), len(statusNames))
	}
}
