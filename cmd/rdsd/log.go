package main

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
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

// logger returns a logger that writes to w, without sampling: there is a line
// per change of state, not per message. Its level may be changed.
func (l *logSettings) logger(w io.Writer) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(l.Level)
	if err != nil {
		return nil, level, err
	}
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	var enc zapcore.Encoder
	if l.Format == "json" {
		enc = zapcore.NewJSONEncoder(cfg)
	} else {
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
		enc = zapcore.NewConsoleEncoder(cfg)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), level)), level, nil
}
