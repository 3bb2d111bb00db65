package fs

import (
	"strings"
	"testing"
)

func TestMountOf(t *testing.T) {
	t.Parallel()
	const info = `22 1 0:21 / /proc rw shared:5 - proc proc rw
30 22 0:27 /part /srv/part rw - bpf bpf rw
31 22 0:27 / /sys/fs/bpf rw,nosuid shared:9 master:2 - bpf bpf rw,mode=700
32 22 0:28 / /a\040place/with\134backslash rw - cgroup2 cgroup2 rw
bad line
`
	for kind, want := range map[string]string{"bpf": "/sys/fs/bpf", "cgroup2": `/a place/with\backslash`, "xfs": ""} {
		if got, err := mountOf(strings.NewReader(info), kind); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", kind, got, err, want)
		}
	}
}
