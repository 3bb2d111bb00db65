package bpf

//go:generate sh gen.sh Admission
