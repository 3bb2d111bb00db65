package main

import (
	"net/netip"
	"strings"

	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/rds"
)

// admissionSettings say which peers there may be connections with.
type admissionSettings struct {
	Allow []string `toml:"allow"`
}

// admission checks the list and reads it as a node takes it. What is no prefix is a host.
func (a *admissionSettings) admission(c *checks) rds.Admission {
	var (
		out   rds.Admission
		names []string
	)
	for _, text := range a.Allow {
		text = strings.TrimSpace(text)
		p, err := netip.ParsePrefix(text)
		switch {
		case !strings.Contains(text, "/"):
			names = append(names, text)
		case err != nil:
			c.add("admission.allow", `%q is neither a prefix such as "10.0.0.0/24" nor a host`, text)
		case p != p.Masked():
			c.add("admission.allow", "%q has bits behind its length: %v is the prefix, %v the address", text, p.Masked(), p.Addr())
		default:
			out.Allow = append(out.Allow, p)
		}
	}
	found := lookUp(names, resolve.Addr)
	for _, name := range names {
		switch h := found[name]; {
		case h.err != nil:
			c.add("admission.allow", "%v", h.err)
		case h.addr.Zone() != "":
			c.add("admission.allow", "%q: an address without its zone allows all interfaces", name)
		default:
			out.Allow = append(out.Allow, netip.PrefixFrom(h.addr, h.addr.BitLen()))
		}
	}
	if err := out.Validate(); err != nil {
		c.add("admission.allow", "%v", err)
	}
	return out
}
