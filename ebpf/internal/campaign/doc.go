// Package campaign has tests alone: two daemons in network namespaces exchange numbered
// messages while package ebpf makes faults in their connections, and each message has to
// arrive once, in order and as it was sent.
package campaign
