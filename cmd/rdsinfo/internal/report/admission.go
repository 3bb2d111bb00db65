package report

import "time"

// admission shows the allow-list, whose connections it has turned away, and how many peers
// the node knows.
func admission(v *View) table {
	t := allowed(v)
	if p := v.Info.Peers; p != nil {
		t.note("    %d peers, %d of %d strangers, %d of %d receive sequences", p.Peers, p.Strangers, p.MaxStrangers, p.Sequences, p.MaxSequences)
	}
	return t
}

// allowed is the allow-list, and who was turned away.
func allowed(v *View) table {
	t := table{title: "Admission", columns: []column{{"Prefix", 22}, {"Allowed", 7}, {"Rejected", 12}, {"Last", 20}}}
	a := v.Info.Admission
	if a == nil {
		t.note("    everybody is allowed")
		return t
	}
	for _, p := range a.Allow {
		t.add(p, "yes", "-", "-")
	}
	for _, r := range a.Prefixes {
		t.add(r.Prefix, "-", r.Count, r.Last.UTC().Format(time.RFC3339))
	}
	if len(a.Allow) == 0 {
		t.note("    everybody is allowed")
	}
	t.note("    %d connections rejected, %d of prefixes not shown", a.Rejected, a.Others)
	return t
}
