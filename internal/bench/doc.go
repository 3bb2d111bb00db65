// Package bench measures RDS sockets, and plain TCP doing the same work, for
// rdsbench.
//
// A Work says what to do: ping-pong (Latency), one way (OneWay), many sockets
// to many (Mux), the same with everything verified (Stress), or binding
// sockets (Sockets). A Runner is the active process: it starts a Server in
// another process or reaches a running one, does each work over RDS and, if
// asked, over TCP in turn, and makes a Report, which writes itself as text,
// JSON or an HTML page.
//
// # The two processes
//
// They agree over a control connection, JSON lines over TCP (control.go): the
// client has the server open what a work needs, asks for its CPU time, and has
// it confirm how many messages came. All data goes over the transport that is
// measured, none over the control connection. Every control line is one
// request or one response of at most 1 MiB.
//
// # What a figure means
//
// A measured time starts after a warm-up and, one way, ends when the receiver
// has confirmed the last message. Receivers check the length and the number of
// each message, so a message lost, doubled or out of order fails the run. CPU
// time is getrusage of both processes, user and system. A ratio is of two runs
// that follow one another, and of several the median is shown.
//
// # Concurrency
//
// A Runner does one work at a time. A Server serves one client at a time.
package bench
