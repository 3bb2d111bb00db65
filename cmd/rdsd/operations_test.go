//go:build !live

package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func manual(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	must(t, err)
	return string(text)
}

// rows are the cells of the manual's tables, by the code in the first one. Of
// several with the same code the first counts: the settings come first.
func rows(text string) map[string][]string {
	out := make(map[string][]string)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if key := strings.Trim(cells[0], "`"); len(cells) > 1 && "`"+key+"`" == cells[0] && out[key] == nil {
			out[key] = cells
		}
	}
	return out
}

// The manual has every key of the file, with its default and whether a running
// daemon takes it.
func TestManualHasEveryKey(t *testing.T) {
	t.Setenv("RDS_SOCKET", "/run/rds/rds.sock") // depends on who runs this
	t.Setenv("RDS_CONTROL", "/run/rdsd.sock")
	table := rows(manual(t))
	set := defaults()
	eachKey(reflect.ValueOf(&set).Elem(), "", func(key string, v reflect.Value, _ []int) {
		cells := table[key]
		if len(cells) != 5 {
			t.Errorf("%s: no row of five cells: %q", key, cells)
			return
		}
		if want := "`" + literal(v) + "`"; cells[1] != want {
			t.Errorf("%s: default %s, want %s", key, cells[1], want)
		}
		if got := strings.HasSuffix(cells[3], "yes"); got != reloadable(key) || (!got && cells[3] != "no") {
			t.Errorf("%s: reload %s, want %v", key, cells[3], reloadable(key))
		}
	})
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rangeSettings]()) {
		if key := f.Tag.Get("toml"); len(table[key]) != 2 {
			t.Errorf("no row of two cells for %s of ports", key)
		}
	}
}

// literal is a value as TOML writes it.
func literal(v reflect.Value) string {
	if d, ok := v.Interface().(duration); ok {
		return fmt.Sprintf("%q", d.Duration)
	}
	switch v.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice:
		return fmt.Sprint(v.Interface())
	}
	return fmt.Sprint(v.Interface())
}

// The manual has every metric but the counters, which it has by their pattern.
func TestManualHasEveryMetric(t *testing.T) {
	t.Parallel()
	text := manual(t)
	info := busy()
	info.Counters = nil
	r := prometheus.NewRegistry()
	r.MustRegister(newCollector(constant(info)))
	families, err := r.Gather()
	must(t, err)
	if len(families) < 20 {
		t.Fatalf("%d metrics", len(families))
	}
	for _, f := range families {
		if name := "`" + f.GetName(); !strings.Contains(text, name+"`") && !strings.Contains(text, name+"{") {
			t.Errorf("no %s", f.GetName())
		}
	}
	if !strings.Contains(text, "rds_<counter>_total") {
		t.Error("no pattern of the counters")
	}
}
