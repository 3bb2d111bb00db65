//go:build invariants && amd64

package lockorder

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
)

// class is what the locks of one field of a struct have in common.
type class struct {
	name string
	rank int // only locks of lower ranks may be held when one of this class is taken
}

var classes sync.Map // *class by the type of the lock

// classIn is classOf for a lock that keeps its class.
//
//go:norace
func classIn[T, L any](kept *atomic.Pointer[class]) *class {
	raceDisable()
	c := kept.Load()
	raceEnable()
	if c == nil {
		c = classOf[T, L]()
		raceDisable()
		kept.Store(c)
		raceEnable()
	}
	return c
}

// classOf returns the class of locks of type L, which is Mutex[T] or RWMutex[T].
func classOf[T, L any]() *class {
	lock := reflect.TypeFor[L]()
	if c, ok := classes.Load(lock); ok {
		return c.(*class)
	}
	name := className(reflect.TypeFor[T](), lock)
	rank, ok := ranks[name]
	if !ok {
		panic(name + " is not in docs/LOCKING.md")
	}
	c, _ := classes.LoadOrStore(lock, &class{name, rank})
	return c.(*class)
}

const module = "github.com/rds-go/rds/"

// className is "package.Struct.field" for the one field of type lock in the struct t, or in the
// struct that t points to.
func className(t, lock reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var fields []string
	for i := range t.NumField() {
		if f := t.Field(i); f.Type == lock {
			fields = append(fields, f.Name)
		}
	}
	if len(fields) != 1 {
		panic(fmt.Sprintf("%d fields of %v are of type %v: which one is meant?", len(fields), t, lock))
	}
	pkg := strings.TrimPrefix(strings.TrimPrefix(t.PkgPath(), module), "internal/")
	return pkg + "." + t.Name() + "." + fields[0]
}
