package conn

import (
	"reflect"
	"testing"
)

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
