// Package fifo has a queue in a slice, which reuses its memory: one that never runs
// empty takes room for twice what is in it, and no value is kept when it has left.
package fifo
