package main

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// reload reads the settings again and puts into effect what a running daemon
// can change. A file with any mistake changes nothing.
func (d *daemon) reload() {
	d.tell(reloading())
	defer d.tell(sd.SdNotifyReady)
	if d.load == nil {
		d.log.Info("nothing to reload: no configuration file")
		return
	}
	read, err := d.load()
	if _, err = read.planAfter(err); err != nil {
		d.notReloaded(err)
		return
	}
	next := d.mix(read)
	p, err := next.plan()
	// The filter in the kernel comes first: whoever is on the new list gets through it when the
	// node allows them, and nobody who is off the list connects again when the node resets them.
	filtered := false
	if err == nil {
		err = d.filter.set(&next.Admission, p.node.Admission.Allow)
		filtered = err == nil
	}
	if err == nil && d.service != nil {
		p.service.Path, p.service.Listener, p.service.Mode = d.serving.Path, d.serving.Listener, d.serving.Mode
		p.service.ReportGroups = d.serving.ReportGroups
		p.service.Logger = d.serving.Logger
		err = d.service.Reload(p.service)
	}
	applied := changed(&d.set, &next)
	if err == nil && !slices.Equal(d.admission.Allow, p.node.Admission.Allow) { // also where a name has another address now
		if err = d.node.SetAdmission(p.node.Admission); err == nil {
			d.admission = p.node.Admission
		}
	}
	if err != nil {
		if filtered {
			err = errors.Join(err, d.filter.set(&d.set.Admission, d.admission.Allow))
		}
		d.notReloaded(err)
		return
	}
	if level, err := zapcore.ParseLevel(next.Log.Level); err == nil { // always: plan has checked it
		d.level.SetLevel(level)
	}
	d.set = next
	d.log.Info("reloaded", zap.Strings("changed", applied))
	if later := changed(&next, &read); len(later) > 0 {
		d.log.Warn("needs a restart", zap.Strings("keys", later))
	}
}

func (d *daemon) notReloaded(err error) {
	d.log.Error("not reloaded", zap.String("error", strings.ReplaceAll(err.Error(), "\n", "; ")))
}

// mix returns the settings in effect with those of read that can change while
// the daemon runs.
func (d *daemon) mix(read settings) settings {
	next := d.set
	next.Sessions = read.Sessions
	next.Users = read.Users
	next.Admission = read.Admission
	next.Ports, next.Services = read.Ports, read.Services
	next.Log.Level = read.Log.Level
	// The node keeps the time it was started with, so that more is not to be had.
	if read.Drain.Duration <= d.linger {
		next.Drain = read.Drain
	}
	return next
}

// changed lists the keys in which two settings differ, in the order of the
// file.
func changed(a, b *settings) []string {
	var keys []string
	eachKey(reflect.ValueOf(a).Elem(), "", func(key string, v reflect.Value, index []int) {
		if !reflect.DeepEqual(v.Interface(), reflect.ValueOf(b).Elem().FieldByIndex(index).Interface()) {
			keys = append(keys, key)
		}
	})
	return keys
}

// eachKey calls f for each setting: its key, its value and where it is in the
// struct. A list of tables counts as one.
func eachKey(v reflect.Value, prefix string, f func(key string, v reflect.Value, index []int)) {
	var walk func(v reflect.Value, prefix string, index []int)
	walk = func(v reflect.Value, prefix string, index []int) {
		for i := range v.NumField() {
			name, at := v.Type().Field(i).Tag.Get("toml"), append(slices.Clone(index), i)
			if v.Field(i).Kind() == reflect.Struct && v.Field(i).Type() != reflect.TypeFor[duration]() {
				walk(v.Field(i), prefix+name+".", at)
				continue
			}
			f(prefix+name, v.Field(i), at)
		}
	}
	walk(v, prefix, nil)
}
