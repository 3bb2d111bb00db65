package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
)

func expectLen(t *testing.T, s *socket.Socket, n int) {
	t.Helper()
	m, err := s.Recv(rdstest.Background(t))
	if err != nil || len(m.Data) != n {
		t.Fatalf("%d bytes, %v; want %d", len(m.Data), err, n)
	}
	m.Release()
}
