//go:build linux && !amd64

package ebpf

var callsOfArchitecture []call
