package ebpf

// Ports that the programs look at when none are given: those of RDS over TCP and of RDS on
// XRC.
var defaultPorts = []uint16{16385, 18634}

// MaxPorts is how many ports the programs look at: PORTS_MAX of rds.h.
const MaxPorts = 8
