//go:build !live

package tcp

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
)

func TestOptionsValidate(t *testing.T) {
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero Options: %v", err)
	}
	bad := Options{
		EventLoops: -1, ReadBuffer: 100, KeepAliveIdle: time.Millisecond, KeepAliveInterval: -time.Second,
		KeepAliveCount: 128, UserTimeout: time.Microsecond, Silence: 1, SendBuffer: -1, LocalSendBuffer: -1, ReceiveBuffer: -1,
		Congestion: "0123456789abcdef", DrainTimeout: -1, MaxMessage: 1<<30 + 1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range strings.Fields("EventLoops ReadBuffer KeepAliveIdle KeepAliveInterval KeepAliveCount " +
		"UserTimeout Silence SendBuffer LocalSendBuffer ReceiveBuffer Congestion DrainTimeout MaxMessage") {
		if !strings.Contains(err.Error(), name+" ") {
			t.Errorf("%s is not named in %q", name, err)
		}
	}
	if tr, err := New(bad); err == nil || tr != nil {
		t.Error("New accepted them")
	}
}

// everybody is a Gate without a list.
type everybody struct{}

func (everybody) Admits(netip.Addr) bool { return true }
func (everybody) Allows(netip.Addr) bool { return true }
func (everybody) Listed(netip.Addr) bool { return false }

// someNetwork is a Network that nobody opens.
type someNetwork struct{ gnetloop.Network }

// Whatever is set of the lower half reaches it.
func TestOptionsReachTheEngine(t *testing.T) {
	o := Options{
		EventLoops: 1, ReadBuffer: 2, KeepAliveIdle: 3, KeepAliveInterval: 4, KeepAliveCount: 5, UserTimeout: 6, Silence: 10,
		SendBuffer: 7, LocalSendBuffer: 11, ReceiveBuffer: 8, Congestion: "reno", DrainTimeout: 9, Gate: everybody{}, Network: someNetwork{}, Inherited: new(gnetloop.Inheritance), Loops: new(gnetloop.Loops), Sharing: new(gnetloop.Sharing), Logger: zap.NewNop(),
	}
	from, to := reflect.ValueOf(o), reflect.ValueOf(o.engine())
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if name == "Name" || strings.HasPrefix(name, "HalfOpen") { // these are constant
			continue
		}
		if v := from.FieldByName(name); !v.IsValid() || v.IsZero() || !v.Equal(to.Field(i)) {
			t.Errorf("%s is %v for the engine", name, to.Field(i))
		}
	}
}
