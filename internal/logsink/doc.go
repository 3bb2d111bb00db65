// Package logsink writes a program's log to a file that may not take it: a pipe whose
// reader has stopped, or has gone. Who logs never waits for the file. A Sink keeps a bounded
// number of bytes, counts the lines that find no room or cannot be written, and says how
// many they were when the file takes lines again.
//
// New makes a Sink, which is a zapcore.WriteSyncer. Close writes what is left, as far as
// that goes in a given time.
//
// # Concurrency
//
// All methods are safe for concurrent use. One goroutine of the Sink writes to the file; it
// ends after Close, or when a write that was under way then returns.
package logsink
