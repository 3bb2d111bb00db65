//go:build live

package main

import (
	"context"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// What is no request costs nothing, and a request without memory gets no answer.
func TestServerIgnoresOthers(t *testing.T) {
	lab(t, func(t *testing.T, host func() *rds.Socket) {
		server, client := host(), host()
		defer serving(t, server)()
		for _, data := range []string{"", "8 octets", "something longer"} {
			rdstest.MustSend(t, client, server.LocalAddrPort(), []byte(data))
		}
		if err := fetch(context.Background(), client, server.LocalAddrPort(), 2, 2); err != nil {
			t.Error(err)
		}
	})
}
