package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// fileMistakes are keys of a file that are unknown and values of the wrong kind. The other
// keys have been read.
type fileMistakes []error

func (m fileMistakes) Error() string { return errors.Join(m...).Error() }

// load reads a file over s. Its error is fileMistakes if the file could be read as TOML.
//
// The decoder stops at the first value of a wrong kind. So each key is decoded by itself, in
// a copy of the file that has nothing else and all lines where they were.
func (s *settings) load(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		row, col := 0, 0
		if bad := (*toml.DecodeError)(nil); errors.As(err, &bad) {
			row, col = bad.Position()
		}
		return fmt.Errorf("%s:%d:%d: %w", file, row, col, err)
	}
	var wrong fileMistakes
	var lists []fileKey // keys of lists of tables, which only count together
	for _, k := range fileKeys(data) {
		into := s
		if k.list != "" {
			into = new(settings)
			lists = append(lists, k)
		}
		wrong = append(wrong, k.decode(file, data, into)...)
	}
	if len(lists) > 0 && len(wrong) == 0 {
		if err := toml.Unmarshal(alone(data, lists...), s); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// fileKey is a key with its value in a file, or the header of a table.
type fileKey struct {
	header      int    // line of the header of its table, from 1; 0: none
	first, next int    // first line of the key, and of what follows the value; 0: the end of the file
	list        string // key of the list of tables that it is in, such as "ports"
	index       int    // number of the table that has the key
	inline      bool   // the value is a table in braces
}

// fileKeys are those of a file that is TOML, in their order.
func fileKeys(data []byte) (keys []fileKey) {
	var p unstable.Parser // the only part of the library that tells where keys are
	p.Reset(data)
	var header fileKey
	count := make(map[string]int)
	for p.NextExpression() {
		e := p.Expression()
		var name []string
		line := 0
		for it := e.Key(); it.Next(); {
			name = append(name, string(it.Node().Data))
			line = p.Shape(it.Node().Raw).Start.Line
		}
		k := fileKey{header: header.header, first: line, list: header.list, index: header.index}
		if e.Kind == unstable.KeyValue {
			k.inline = e.Value().Kind == unstable.InlineTable
		} else {
			header = fileKey{header: line}
			if e.Kind == unstable.ArrayTable {
				header.list = strings.Join(name, ".")
				header.index = count[header.list]
				count[header.list]++
			}
			k = fileKey{first: line, list: header.list, index: header.index}
		}
		if n := len(keys); n > 0 {
			keys[n-1].next = line
		}
		keys = append(keys, k)
	}
	return keys
}

// alone is a file with some of its keys and nothing else, each on its own lines.
func alone(data []byte, keys ...fileKey) []byte {
	lines := bytes.SplitAfter(data, []byte("\n"))
	keep := make([]bool, len(lines)+1)
	for _, k := range keys {
		keep[k.header] = true
		for i := k.first; i < k.next || k.next == 0 && i <= len(lines); i++ {
			keep[i] = true
		}
	}
	var out []byte
	for i, line := range lines {
		if keep[i+1] {
			out = append(out, line...)
		} else {
			out = append(out, '\n')
		}
	}
	return out
}

// decode reads a key into s, and tells what is wrong with it.
func (k fileKey) decode(file string, data []byte, s *settings) (wrong []error) {
	dec := toml.NewDecoder(bytes.NewReader(alone(data, k)))
	dec.DisallowUnknownFields()
	err := dec.Decode(s)
	at := func(e *toml.DecodeError) string {
		row, _ := e.Position()
		name := strings.Join(e.Key(), ".")
		if in, ok := strings.CutPrefix(name, k.list+"."); ok && k.list != "" {
			name = fmt.Sprintf("%s[%d].%s", k.list, k.index, in)
		}
		return fmt.Sprintf("%s:%d: %s", file, row, name)
	}
	var unknown *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		for i := range unknown.Errors {
			wrong = append(wrong, fmt.Errorf("%s: unknown key", at(&unknown.Errors[i])))
		}
	case errors.As(err, &bad):
		why := bad.Error() // names the type, but not the key if that is in braces
		if !k.inline {
			why = cmp.Or(wanted(reflect.TypeFor[settings](), bad.Key()), why)
		}
		wrong = append(wrong, fmt.Errorf("%s: %s", at(bad), why))
	case err != nil:
		wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
	}
	return wrong
}

// wanted says what kind of value a key has.
func wanted(t reflect.Type, key []string) string {
	for _, name := range key {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			break
		}
		for f := range t.Fields() {
			if f.Tag.Get("toml") == name {
				t = f.Type
				break
			}
		}
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return fmt.Sprintf("want a whole number, at most %d", uint64(1)<<(t.Bits()-1)-1)
	case reflect.Bool:
		return "want true or false"
	case reflect.String:
		return "want a string in quotes"
	case reflect.Slice:
		return "want a list of strings, such as [\"a\", \"b\"]"
	case reflect.Struct:
		if t == reflect.TypeFor[duration]() {
			return "want a duration such as \"1m30s\""
		}
		return "want a table"
	}
	return ""
}

// planAfter is plan of settings that were read with an error. Its error names what was wrong
// in the file, too.
func (s *settings) planAfter(reading error) (plan, error) {
	if partly := fileMistakes(nil); reading != nil && !errors.As(reading, &partly) {
		return plan{}, reading
	}
	p, err := s.plan()
	return p, errors.Join(reading, err)
}
