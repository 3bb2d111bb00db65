package ebpf

// Ports that the programs look at when none are given: those of RDS over TCP and of RDS on
// XRC.
var defaultPorts = []uint16{16385, 18634}

// maxPorts is PORTS_MAX of rds.h.
const maxPorts = 8
