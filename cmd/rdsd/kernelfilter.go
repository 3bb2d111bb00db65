package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/rds"
)

// kernelFilter is what the daemon needs of *ebpf.Admission.
type kernelFilter interface {
	Set([]netip.Prefix) error
	Status() (ebpf.AdmissionStatus, error)
	Close() error
}

// openFilter opens the filter that is pinned in a directory. It needs no capability.
func openFilter(dir string) (kernelFilter, error) {
	a, err := ebpf.OpenAdmission(dir)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// filter is the filter of strangers in the kernel, which rdsbpf has loaded and the daemon
// gives its list. The pins are opened anew each time: rdsbpf may have loaded another filter
// meanwhile, or the first one. A nil filter does nothing.
type filter struct {
	open  func(dir string) (kernelFilter, error)
	ports []uint16 // TCP ports that the daemon listens on
	log   *zap.Logger

	mu   sync.Mutex        // guards the fields below; a leaf
	conf admissionSettings // settings in effect
	told string            // the last line of the log about the filter
	list string            // ebpf.AdmissionStatus.Version of the list that was set last
	bad  string            // reason why the last set failed; empty: it did not
}

func newFilter(ports []uint16, conf admissionSettings, log *zap.Logger) *filter {
	return &filter{open: openFilter, ports: ports, log: log, conf: conf}
}

// errOff is why a filter is not used that the settings have turned off.
var errOff = errors.New(`admission.kernel is "off"`)

// use opens the filter that the settings name, if the daemon can use it.
func (f *filter) use(conf *admissionSettings) (k kernelFilter, s ebpf.AdmissionStatus, err error) {
	if conf.Kernel == kernelOff {
		return nil, s, errOff
	}
	if k, err = f.open(conf.Pins); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = &missingPins{conf.Pins}
		}
		return nil, s, err
	}
	if s, err = k.Status(); err == nil {
		if !s.Here {
			err = fmt.Errorf("the filter in %s is of another network namespace", conf.Pins)
		} else if without := f.without(&s); len(without) == len(f.ports) || len(without) > 0 && conf.Kernel == kernelRequire {
			err = fmt.Errorf("the filter in %s is for TCP ports %s, not for %s", conf.Pins, portList(s.Ports), portList(without))
		}
	}
	if err != nil {
		_ = k.Close()
		return nil, s, err
	}
	return k, s, nil
}

// missingPins is the error of a directory that has no filter.
type missingPins struct{ dir string }

func (e *missingPins) Error() string { return "no pins in " + e.dir }
func (e *missingPins) Unwrap() error { return os.ErrNotExist }

// without are the ports of the daemon that a filter does not look at.
func (f *filter) without(s *ebpf.AdmissionStatus) (ports []uint16) {
	for _, p := range f.ports {
		if !slices.Contains(s.Ports, p) {
			ports = append(ports, p)
		}
	}
	return ports
}

// usable is an error if the settings require a filter that the daemon cannot use.
func (f *filter) usable(conf *admissionSettings) error {
	if f == nil || conf.Kernel != kernelRequire {
		return nil
	}
	k, _, err := f.use(conf)
	if err != nil {
		return required(err)
	}
	return k.Close()
}

func required(err error) error {
	return fmt.Errorf("admission.kernel is %q: %w; rdsbpf load loads the filter", kernelRequire, err)
}

// set gives the filter a list, and puts the settings into effect for info. It fails only
// where the settings require the filter; then the filter keeps its list. Otherwise a line of
// the log says why there is no filter, and the node's own list does it alone.
func (f *filter) set(conf *admissionSettings, list []netip.Prefix) error {
	if f == nil {
		return nil
	}
	k, s, err := f.use(conf)
	if err == nil {
		if err = k.Set(list); err == nil {
			s, err = k.Status()
		}
		_ = k.Close()
	}
	if err != nil && conf.Kernel == kernelRequire {
		return required(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conf, f.bad, f.list = *conf, "", s.Version
	if err != nil {
		f.bad = err.Error()
		f.noneLocked(conf, err)
		return nil
	}
	f.sayLocked(f.log.Info, "kernel filter set", zap.String("deny", string(s.Deny)), zap.Strings("hooks", s.Hooks), zap.Int("prefixes", len(list)))
	if want := ebpf.Deny(conf.Deny); s.Deny != want {
		f.log.Warn("kernel filter differs from the settings until rdsbpf load", zap.String("deny", string(s.Deny)), zap.String("want", conf.Deny))
	}
	if without := f.without(&s); len(without) > 0 {
		f.log.Warn("kernel filter does not look at all ports", zap.String("without", portList(without)))
	}
	return nil
}

// noneLocked says why the filter does not have the daemon's list.
func (f *filter) noneLocked(conf *admissionSettings, err error) {
	why := zap.String("why", err.Error())
	switch {
	case errors.Is(err, errOff):
		if k, err := f.open(conf.Pins); err == nil {
			_ = k.Close()
			f.sayLocked(f.log.Warn, "kernel filter is loaded and keeps the list it has: rdsbpf unload takes it out", why, zap.String("pins", conf.Pins))
		}
	case errors.Is(err, os.ErrNotExist), errors.Is(err, ebpf.ErrNotSupported):
		f.sayLocked(f.log.Info, "no kernel filter, the daemon keeps strangers out by itself", why)
	case errors.Is(err, os.ErrPermission) && closed(conf.Pins):
		f.sayLocked(f.log.Info, "no kernel filter that this user may use, the daemon keeps strangers out by itself", why)
	default:
		f.sayLocked(f.log.Warn, "kernel filter not set: it keeps the list it has", why, zap.String("pins", conf.Pins))
	}
}

// closed tells whether a directory is in one that this user may not look into, so that nobody
// here knows whether it is there.
func closed(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, os.ErrPermission)
}

// sayLocked logs a line if it is not the last one again.
func (f *filter) sayLocked(log func(string, ...zap.Field), text string, fields ...zap.Field) {
	line := fmt.Sprint(text, fields)
	if line != f.told {
		f.told = line
		log(text, fields...)
	}
}

// info is what the filter is and has done, for reports.
func (f *filter) info() *rds.KernelFilterInfo {
	f.mu.Lock()
	conf, bad, list := f.conf, f.bad, f.list
	f.mu.Unlock()
	k, s, err := f.use(&conf)
	if err != nil {
		return &rds.KernelFilterInfo{Why: err.Error()}
	}
	_ = k.Close()
	i := &rds.KernelFilterInfo{Deny: string(s.Deny), Hooks: s.Hooks, Ports: s.Ports, Prefixes: s.Prefixes, Passed: s.Passed, Refused: s.Refused}
	switch {
	case bad != "":
		i.Why = bad + ", the last time that it was given its list"
	case s.Version != list:
		i.Why = "its list was set by another process, or it was loaded anew; rdsd sets its own when it is reloaded"
	default:
		i.Active = true
	}
	return i
}

// portList is such as "16385, 18634".
func portList(ports []uint16) string {
	var words []string
	for _, p := range ports {
		words = append(words, fmt.Sprint(p))
	}
	return strings.Join(words, ", ")
}
