package transporttest

import (
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Simple is for a transport.Handler to embed that takes messages and nothing else.
type Simple struct{}

// The methods of a Handler that has no use for them.
func (Simple) Begin()                                    {}
func (Simple) End()                                      {}
func (Simple) Place(*wire.Header) *buf.Buf               { return nil }
func (Simple) Acquainted() bool                          { return false }
func (Simple) Writable()                                 {}
func (Simple) Acked()                                    {}
func (Simple) Refused(uint64, uint32, transport.Refusal) {}
func (Simple) RefusalsHeard(uint64)                      {}
func (Simple) Resumed() bool                             { return true }
func (Simple) Queue(uint32)                              {}
func (Simple) Hold([]uint16, bool)                       {}
func (Simple) Closed(error, uint64)                      {}
