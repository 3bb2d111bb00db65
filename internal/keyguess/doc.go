// Package keyguess tries keys of memory regions at a host as fast as it answers, over a link
// of its own: what a stranger does who knows the protocol and nothing else. Only tests import
// it, those of packages rds and cmd/rdsd; it is a package because they share it.
package keyguess
