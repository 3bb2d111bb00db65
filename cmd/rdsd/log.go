package main

import (
	"bytes"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rds-go/rds/internal/logsink"
)

// logSettings says what is logged and how.
type logSettings struct {
	Level  string `toml:"level"`
	Format string `toml:"format"`
}

func (l *logSettings) check(c *checks) {
	if _, err := zapcore.ParseLevel(l.Level); err != nil || l.Level == "" {
		c.add("log.level", "%q is none of debug, info, warn and error", l.Level)
	}
	if l.Format != "console" && l.Format != "json" {
		c.add("log.format", "%q is neither console nor json", l.Format)
	}
}

// flushTime bounds how long the end waits for standard error to take the last lines.
const flushTime = 500 * time.Millisecond

// open returns a logger that never waits for file, and where its lines go. Its level may
// be changed.
func (l *logSettings) open(file io.Writer) (*zap.Logger, zap.AtomicLevel, *logsink.Sink, error) {
	enc := l.encoder()
	sink := logsink.New(file, func(lines uint64) []byte {
		b, err := enc.EncodeEntry(
			zapcore.Entry{Level: zap.WarnLevel, Time: time.Now(), Message: "log lines dropped: standard error did not take them"},
			[]zapcore.Field{zap.Uint64("lines", lines)})
		if err != nil {
			return nil
		}
		defer b.Free()
		return bytes.Clone(b.Bytes())
	})
	log, level, err := l.logger(sink)
	return log, level, sink, err
}

// logger returns a logger that writes to w: a line per change of state, not per message.
// What others can cause package rds limits. Its level may be changed.
func (l *logSettings) logger(w io.Writer) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(l.Level)
	if err != nil {
		return nil, level, err
	}
	return zap.New(zapcore.NewCore(l.encoder(), zapcore.Lock(zapcore.AddSync(w)), level)), level, nil
}

func (l *logSettings) encoder() zapcore.Encoder {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	if l.Format == "json" {
		return zapcore.NewJSONEncoder(cfg)
	}
	cfg.EncodeLevel = zapcore.CapitalLevelEncoder
	cfg.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
	return zapcore.NewConsoleEncoder(cfg)
}
