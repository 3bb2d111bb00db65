package report

import "time"

// admission shows the allow-list, and whose connections it has turned away.
func admission(v *View) table {
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
