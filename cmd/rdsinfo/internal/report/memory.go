package report

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// memory shows the regions that peers may reach, and what of peers was refused.
func memory(v *View) table {
	t := table{title: "Memory Regions", columns: []column{
		{"Pool", 10}, {"Live", 9}, {"Dirty", 9}, {"Clean", 9}, {"Resting", 9}, {"Pinned", 14}, {"Full", 9}}}
	m := v.Info.Memory
	if m == nil {
		return t
	}
	for _, p := range m.Pools {
		t.add(p.Name, p.Live, p.Dirty, p.Clean, p.Resting, p.Pinned, p.Full)
	}
	t.note("    %d invalidated in %d batches of up to %d, %d stale, %d waited too long for a reader, %d over a limit of pinned bytes",
		m.Invalidations, m.Batches, m.LargestBatch, m.Stale, m.StuckReaders, m.Refused)
	for _, b := range m.BadKeys {
		if b.Count > 0 {
			t.note("    refused, %s: %d", b.Reason, b.Count)
		}
	}
	peers := slices.SortedFunc(maps.Keys(m.Offenders), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(m.Offenders[b], m.Offenders[a]), a.Compare(b))
	})
	for _, p := range peers {
		who := "others"
		if p.IsValid() {
			who = p.String()
		}
		t.note("    refused to %s: %d", who, m.Offenders[p])
	}
	return t
}
