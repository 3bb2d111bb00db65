// Package address reads addresses of sockets, and says what is wrong with one that no socket
// can have. Its functions keep nothing and may be called from any goroutine.
package address
