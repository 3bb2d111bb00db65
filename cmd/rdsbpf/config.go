package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/rds"
)

// Values of a setting that says whether a feature is to be loaded.
const (
	modeAuto    = "auto"    // where the kernel has it
	modeRequire = "require" // without it, loading fails
	modeOff     = "off"
)

// wireAuto is the value of wire that means rds.WireAuto.
const wireAuto = "auto"

// config is what rdsbpf reads of rdsd's file. rdsd checks the other keys.
type config struct {
	Listen    []string `toml:"listen"`
	Port      int      `toml:"port"`
	Wire      string   `toml:"wire"`
	Admission struct {
		Kernel     string   `toml:"kernel"`
		Deny       string   `toml:"deny"`
		Interfaces []string `toml:"interfaces"`
		Pins       string   `toml:"pins"`
	} `toml:"admission"`
	Telemetry struct {
		Kernel string `toml:"kernel"`
	} `toml:"telemetry"`
	Handover struct {
		Kernel string `toml:"kernel"`
		Pins   string `toml:"pins"`
	} `toml:"handover"`
	XRC struct {
		Port int `toml:"port"`
	} `toml:"xrc"`
}

// defaultConfig is rdsd's: a test compares it with rdsd.toml.
func defaultConfig() *config {
	c := &config{Port: rds.DefaultPort, Wire: wireAuto}
	c.Admission.Kernel, c.Admission.Deny, c.Admission.Pins = modeAuto, string(ebpf.Refuse), ebpf.DefaultDir
	c.Telemetry.Kernel = modeAuto
	c.Handover.Kernel, c.Handover.Pins = modeAuto, handoverDir(ebpf.DefaultDir)
	return c
}

// pinIn has all features pinned in a directory and below, instead of where the file says.
func (c *config) pinIn(dir string) { c.Admission.Pins, c.Handover.Pins = dir, handoverDir(dir) }

// readConfig reads rdsd's file; "" is the defaults.
func readConfig(file string) (*config, error) {
	c := defaultConfig()
	if file == "" {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := toml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c *config) check() error {
	var errs []error
	a := &c.Admission
	if !slices.Contains([]string{modeAuto, modeRequire, modeOff}, a.Kernel) {
		errs = append(errs, fmt.Errorf("admission.kernel: %q is none of auto, require and off", a.Kernel))
	}
	if k := c.Handover.Kernel; !slices.Contains([]string{modeAuto, modeRequire, modeOff}, k) {
		errs = append(errs, fmt.Errorf("handover.kernel: %q is none of auto, require and off", k))
	}
	if c.Handover.Pins == "" && c.Handover.Kernel != modeOff {
		errs = append(errs, errors.New("handover.pins: no directory"))
	}
	if a.Deny != string(ebpf.Silent) && a.Deny != string(ebpf.Refuse) {
		errs = append(errs, fmt.Errorf("admission.deny: %q is neither silent nor refuse", a.Deny))
	}
	if c.Wire != wireAuto && c.Wire != string(rds.WireTCP) && c.Wire != string(rds.WireXRC) {
		errs = append(errs, fmt.Errorf("wire: %q is none of auto, xrc and tcp", c.Wire))
	}
	if t := c.Telemetry.Kernel; t != modeAuto && t != modeOff {
		errs = append(errs, fmt.Errorf("telemetry.kernel: %q is neither auto nor off", t))
	}
	for key, port := range map[string]int{"port": c.Port, "xrc.port": c.XRC.Port} {
		if port < 0 || port > 65535 || port == 0 && key == "port" {
			errs = append(errs, fmt.Errorf("%s: %d is no TCP port", key, port))
		}
	}
	return errors.Join(errs...)
}

// wantsHandover tells whether rdsd needs a handover, or auto has it use one: with a prefix to
// listen on.
func (c *config) wantsHandover() bool {
	switch c.Handover.Kernel {
	case modeRequire:
		return true
	case modeAuto:
		return slices.ContainsFunc(c.Listen, func(at string) bool { return strings.Contains(at, "/") })
	}
	return false
}

// ports are the TCP ports that rdsd listens on.
func (c *config) ports() []uint16 {
	node := rds.Config{Port: uint16(c.Port), XRC: rds.XRCConfig{Port: uint16(c.XRC.Port)}}
	if c.Wire != wireAuto {
		node.Wire = rds.Wire(c.Wire)
	}
	return node.Ports()
}
