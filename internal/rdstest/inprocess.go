package rdstest

import (
	"io"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/config"
)

// ServeIn is Serve where the lab is: applications of a lab in memory attach without a socket, so
// that they and the daemon can be in a bubble of testing/synctest.
func ServeIn[N any, S io.Closer](l *Lab, serve func(N, config.Service) (S, error), n N, cfg config.Service) (S, string) {
	l.Helper()
	if l.Net == nil {
		return Serve(l.TB, serve, n, cfg)
	}
	place := ipc.NewInProcess()
	l.Cleanup(place.Close)
	cfg.Path = place.Path
	svc, err := serve(n, cfg)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = svc.Close() })
	return svc, cfg.Path
}
