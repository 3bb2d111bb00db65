package gnetloop

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// engineLog is a zap logger as gnet wants one. What gnet finds worth an Info
// or a Warn (that it starts, that an event came for a link just closed) is
// debugging detail here. gnet keeps the logger of the engine made last in a
// global variable; that is why it is a plain adapter with nothing to close.
type engineLog struct{ log *zap.Logger }

func (l engineLog) write(level zapcore.Level, format string, args []any) {
	if ce := l.log.Check(level, "event engine"); ce != nil {
		ce.Write(zap.String("text", fmt.Sprintf(format, args...)))
	}
}

func (l engineLog) Debugf(format string, args ...any) { l.write(zap.DebugLevel, format, args) }
func (l engineLog) Infof(format string, args ...any)  { l.write(zap.DebugLevel, format, args) }
func (l engineLog) Warnf(format string, args ...any)  { l.write(zap.DebugLevel, format, args) }
func (l engineLog) Errorf(format string, args ...any) { l.write(zap.ErrorLevel, format, args) }

// Fatalf does not end the process: a library has no right to.
func (l engineLog) Fatalf(format string, args ...any) { l.write(zap.ErrorLevel, format, args) }
