package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rds-go/rds/rds"
)

// admission shows the allow-list, whose connections it has turned away, and how many peers
// the node knows.
func admission(v *View) table {
	t := allowed(v)
	if a := v.Info.Admission; a != nil && a.Kernel != nil {
		t.note("    kernel filter: %s", kernelFilter(a.Kernel))
	}
	if p := v.Info.Peers; p != nil {
		t.note("    %d peers, %d of %d strangers, %d of %d receive sequences", p.Peers, p.Strangers, p.MaxStrangers, p.Sequences, p.MaxSequences)
	}
	return t
}

// kernelFilter is what the filter in the kernel is and has done, or why there is none.
func kernelFilter(k *rds.KernelFilterInfo) string {
	if len(k.Hooks) == 0 {
		return "none: " + k.Why
	}
	var ports []string
	for _, p := range k.Ports {
		ports = append(ports, strconv.Itoa(int(p)))
	}
	list := fmt.Sprintf("%d prefixes", k.Prefixes)
	switch k.Prefixes {
	case 0:
		list = "everybody is allowed"
	case 1:
		list = "1 prefix"
	}
	text := fmt.Sprintf("%s by %s, TCP %s, %s, %d refused", k.Deny, strings.Join(k.Hooks, ", "), strings.Join(ports, " and "), list, k.Refused)
	if !k.Active {
		text += "; not the list of this daemon: " + k.Why
	}
	return text
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
