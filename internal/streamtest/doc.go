// Package streamtest is what connections of every gnetloop.Network have to show, the host's and
// that in memory: a contract, and the handler that records what they do. It does not import
// gnetloop, whose tests use it.
package streamtest
