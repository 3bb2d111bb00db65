// Package fs finds the file systems that BPF needs, where this process sees them: the BPF
// file system, which keeps pinned objects, and the second version of control groups. Their
// places differ between systems, so they are looked up in /proc/self/mountinfo.
package fs
