package loglimit

import (
	"net/netip"
	"strconv"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// subject is what a line is about.
type subject struct {
	name string     // empty: nobody in particular
	addr netip.Addr // the peer's; invalid: the line is about something else
}

// subjects are the keys of the fields that say what a line is about.
var subjects = map[string]bool{"peer": true, "pid": true}

// subjectOf is what the first field of subjects says, or had said before.
func subjectOf(had subject, fields []zapcore.Field) subject {
	if had.name != "" {
		return had
	}
	for i := range fields {
		f := &fields[i]
		if !subjects[f.Key] {
			continue
		}
		switch f.Type {
		case zapcore.StringerType:
			switch a := f.Interface.(type) {
			case netip.AddrPort: // a peer has a new port for each connection
				return subject{a.Addr().String(), a.Addr()}
			case netip.Addr:
				return subject{a.String(), a}
			}
		case zapcore.StringType:
			a, _ := netip.ParseAddr(f.String) // another text is no address
			return subject{f.String, a}
		case zapcore.ByteStringType:
			return subject{name: string(f.Interface.([]byte))}
		case zapcore.Int64Type, zapcore.Int32Type:
			return subject{name: f.Key + " " + strconv.FormatInt(f.Integer, 10)}
		}
	}
	return subject{}
}

// core is a zapcore.Core that keeps to a limiter.
type core struct {
	zapcore.Core
	l   *Limiter
	who subject // what the fields of With say
}

// Logger is log that keeps to the limiter, log itself if it does already.
func (l *Limiter) Logger(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		if have, ok := c.(*core); c == zapcore.NewNopCore() || ok && have.l == l {
			return c
		}
		return &core{Core: c, l: l}
	}))
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{Core: c.Core.With(fields), l: c.l, who: subjectOf(c.who, fields)}
}

// Check implements zapcore.Core. What a line is about is known only when it is written.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if !c.l.passes(e.Level, e.Message, subjectOf(c.who, fields)) {
		return nil
	}
	if ce := c.Core.Check(e, nil); ce != nil {
		ce.Write(fields...)
	}
	return nil
}
