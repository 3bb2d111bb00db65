package main

import (
	"fmt"
	"strings"

	"github.com/rds-go/rds/ebpf"
)

// loadAdmission loads the filter of strangers.
func loadAdmission(l *loadOptions) (string, error) {
	c := &l.config.Admission
	o := ebpf.AdmissionOptions{Dir: l.dir, Deny: ebpf.Deny(c.Deny), Ports: l.portsOr(l.config.ports()), Netns: l.netns, Owner: l.uid}
	if o.Deny == ebpf.Silent && len(c.Interfaces) > 0 {
		o.Interfaces = c.Interfaces
	}
	a, err := ebpf.LoadAdmission(o)
	if err != nil {
		return "", err
	}
	defer a.Close()
	s, err := a.Status()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s", filter(&s), prefixes(s.Prefixes)), nil
}

// admissionStatus is the status of the feature.
func admissionStatus(dir string) (any, []string, error) {
	a, err := ebpf.OpenAdmission(dir)
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	s, err := a.Status()
	if err != nil {
		return nil, nil, err
	}
	return s, []string{fmt.Sprintf("%s, %s, %d refused, %d passed", filter(&s), prefixes(s.Prefixes), s.Refused, s.Passed)}, nil
}

// filter is such as "refuse by sk_lookup, ports 16385 and 18634".
func filter(s *ebpf.AdmissionStatus) string {
	var ports []string
	for _, p := range s.Ports {
		ports = append(ports, fmt.Sprint(p))
	}
	return fmt.Sprintf("%s by %s, TCP %s", s.Deny, strings.Join(s.Hooks, ", "), strings.Join(ports, " and "))
}

func prefixes(n int) string {
	switch n {
	case 0:
		return "everybody may connect"
	case 1:
		return "1 prefix"
	}
	return fmt.Sprintf("%d prefixes", n)
}
