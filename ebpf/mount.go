package ebpf

// DefaultDir is the directory that rdsbpf pins in, and rdsd looks for pins in, where they are
// told nothing else. Several daemons on one host have a directory each.
const DefaultDir = mountPoint + "/rds"

// mountPoint is where the BPF file system usually is; systemd mounts it there.
const mountPoint = "/sys/fs/bpf"
