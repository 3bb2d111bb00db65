package main

import (
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/rds"
)

// admissionSettings say which peers there may be connections with.
type admissionSettings struct {
	Allow      []string `toml:"allow"`
	Kernel     string   `toml:"kernel"`
	Deny       string   `toml:"deny"`
	Interfaces []string `toml:"interfaces"`
	Pins       string   `toml:"pins"`
}

// Values of admission.kernel.
const (
	kernelAuto    = "auto"
	kernelRequire = "require"
	kernelOff     = "off"
)

func defaultAdmission() admissionSettings {
	return admissionSettings{Allow: []string{}, Kernel: kernelAuto, Deny: string(ebpf.Refuse), Interfaces: []string{}, Pins: ebpf.DefaultDir}
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
	if a.Kernel != kernelAuto && a.Kernel != kernelRequire && a.Kernel != kernelOff {
		c.add("admission.kernel", "%q is none of %s, %s and %s", a.Kernel, kernelAuto, kernelRequire, kernelOff)
	}
	if a.Deny != string(ebpf.Silent) && a.Deny != string(ebpf.Refuse) {
		c.add("admission.deny", "%q is neither %s nor %s", a.Deny, ebpf.Silent, ebpf.Refuse)
	}
	if !filepath.IsAbs(a.Pins) && a.Kernel != kernelOff {
		c.add("admission.pins", "%q is not an absolute path, such as %s", a.Pins, ebpf.DefaultDir)
	}
	return out
}
