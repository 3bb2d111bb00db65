package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// operation is one argument of op: NAME[:PARAMETER[=VALUE],...].
type operation struct {
	op    iwarp.Op
	wait  bool // wait for the end of the connection, instead of doing something
	flags iwarp.Flags

	count, length, mem                          uint64
	key, addr                                   uint64
	add, addMask                                uint64
	compare, compareMask, swap, swapMask, value uint64
}

var opNames = map[string]iwarp.Op{
	"write": iwarp.OpWrite, "read": iwarp.OpRead, "send": iwarp.OpSend, "send-invalidate": iwarp.OpSendInvalidate,
	"fetch-add": iwarp.OpFetchAdd, "compare-swap": iwarp.OpCompareSwap, "immediate": iwarp.OpImmediate,
}

// parameter is one that has a number.
type parameter struct {
	bits int
	ops  []iwarp.Op // kinds of operation that have the parameter; nil: all
	at   func(*operation) *uint64
}

var (
	withKey    = []iwarp.Op{iwarp.OpWrite, iwarp.OpRead, iwarp.OpSendInvalidate, iwarp.OpFetchAdd, iwarp.OpCompareSwap}
	withAddr   = []iwarp.Op{iwarp.OpWrite, iwarp.OpRead, iwarp.OpFetchAdd, iwarp.OpCompareSwap}
	withMemory = []iwarp.Op{iwarp.OpWrite, iwarp.OpRead, iwarp.OpSend, iwarp.OpSendInvalidate}
	fetchAdd   = []iwarp.Op{iwarp.OpFetchAdd}
	swap       = []iwarp.Op{iwarp.OpCompareSwap}
	immediate  = []iwarp.Op{iwarp.OpImmediate}
)

var parameters = map[string]parameter{
	"count":        {31, nil, func(o *operation) *uint64 { return &o.count }},
	"key":          {32, withKey, func(o *operation) *uint64 { return &o.key }},
	"addr":         {64, withAddr, func(o *operation) *uint64 { return &o.addr }},
	"len":          {32, withMemory, func(o *operation) *uint64 { return &o.length }},
	"mem":          {32, withMemory, func(o *operation) *uint64 { return &o.mem }},
	"add":          {64, fetchAdd, func(o *operation) *uint64 { return &o.add }},
	"add-mask":     {64, fetchAdd, func(o *operation) *uint64 { return &o.addMask }},
	"compare":      {64, swap, func(o *operation) *uint64 { return &o.compare }},
	"compare-mask": {64, swap, func(o *operation) *uint64 { return &o.compareMask }},
	"swap":         {64, swap, func(o *operation) *uint64 { return &o.swap }},
	"swap-mask":    {64, swap, func(o *operation) *uint64 { return &o.swapMask }},
	"value":        {64, immediate, func(o *operation) *uint64 { return &o.value }},
}

var opFlags = map[string]iwarp.Flags{"fence": iwarp.Fence, "solicited": iwarp.Solicited}

var errParameter = errors.New("no such parameter of this operation")

// parseOperation reads an argument.
func parseOperation(s string) (operation, error) {
	o, err := parseOp(s)
	if err != nil {
		err = fmt.Errorf("operation %q: %w", s, err)
	}
	return o, err
}

func parseOp(s string) (o operation, err error) {
	name, rest, _ := strings.Cut(s, ":")
	const all = ^uint64(0)
	o = operation{flags: iwarp.Signaled, count: 1, mem: all, compareMask: all, swapMask: all}
	op, ok := opNames[name]
	switch {
	case name == "wait" && rest == "":
		o.wait = true
		return o, nil
	case !ok:
		return o, errors.New("no such operation")
	}
	o.op = op
	for param := range strings.SplitSeq(rest, ",") {
		if err := o.parameter(param); param != "" && err != nil {
			return o, fmt.Errorf("%s: %w", param, err)
		}
	}
	switch {
	case o.answersWord():
		o.length, o.mem = 8, 8
	case o.mem == all:
		o.mem = o.length
	}
	if o.mem > maxMemory {
		return o, fmt.Errorf("local memory of %d bytes, at most %d (mem)", o.mem, maxMemory)
	}
	return o, nil
}

func (o *operation) parameter(s string) error {
	name, value, _ := strings.Cut(s, "=")
	if f, ok := opFlags[s]; ok {
		o.flags |= f
		return nil
	}
	p, ok := parameters[name]
	if !ok || p.ops != nil && !slices.Contains(p.ops, o.op) {
		return errParameter
	}
	n, err := strconv.ParseUint(value, 0, p.bits)
	if err != nil {
		return errors.Unwrap(err)
	}
	*p.at(o) = n
	return nil
}

// answersWord tells whether it is an atomic, which answers 8 bytes.
func (o *operation) answersWord() bool {
	return o.op == iwarp.OpFetchAdd || o.op == iwarp.OpCompareSwap
}

// request is the work request for it with local memory m.
func (o *operation) request(m *iwarp.MR) iwarp.WorkRequest {
	w := iwarp.WorkRequest{
		Op: o.op, Flags: o.flags, RemoteKey: mr.Key(o.key), RemoteAddr: o.addr, Invalidate: mr.Key(o.key), Immediate: o.value,
		Add: o.add, AddMask: o.addMask, Compare: o.compare, CompareMask: o.compareMask, Swap: o.swap, SwapMask: o.swapMask,
	}
	if o.op != iwarp.OpImmediate {
		// The length may be a lie.
		w.SGE = []iwarp.SGE{{Key: m.Key(), Addr: m.Base(), Len: uint32(o.length)}}
	}
	return w
}
