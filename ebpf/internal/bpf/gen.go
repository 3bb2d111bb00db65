package bpf

//go:generate sh gen.sh Admission
//go:generate sh gen.sh Telemetry
//go:generate sh gen.sh Fault
//go:generate sh gen.sh Wakeups
//go:generate sh gen.sh Handover
