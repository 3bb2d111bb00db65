// Package loglimit bounds what others can make a program log: of each kind of line, which
// is its message, a number of lines for each peer and a number for all, in a time. What is
// left out is counted, and told in sum when the time is over.
//
// New makes a Limiter, Limiter.Logger a logger that keeps to it. Whoever owns the limiter
// calls Tell from time to time, every second or so.
//
// # Concurrency
//
// All methods are safe for concurrent use. Writing a line takes one short lock.
package loglimit
