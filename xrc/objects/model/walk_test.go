package model

import (
	"fmt"
	"strings"
)

// result of a walk: how many states and steps there are, and if something is
// wrong, what, and the way there.
type result struct {
	states, steps int
	wrong         string
	story         []string
}

type visit struct {
	from   int32
	action action
}

// edge is a step between two states.
type edge struct{ from, to int32 }

// walk visits every state that can be reached, nearest first. It stops at the
// first one that is wrong.
func (m *model) walk() (r result) {
	var list []state
	var visits []visit
	index := map[state]int32{}
	var orderly []edge

	visitState := func(s state, v visit) (int32, bool) {
		if at, known := index[s]; known {
			return at, false
		}
		at := int32(len(list))
		index[s] = at
		list, visits = append(list, s), append(visits, v)
		return at, true
	}
	story := func(at int32, last ...string) (lines []string) {
		for ; at > 0; at = visits[at].from {
			lines = append([]string{fmt.Sprintf("%v: %v", visits[at].action, list[at])}, lines...)
		}
		return append(lines, last...)
	}
	visitState(state{connected: true, dInc: 1, iInc: 1}, visit{})
	w := walker{m: m}
	for at := int32(0); int(at) < len(list); at++ {
		if wrong := list[at].wrong(); wrong != "" && list[at].doomed == 0 {
			return result{len(list), r.steps, wrong, story(at)}
		}
		for _, st := range w.next(list[at]) {
			r.steps++
			if st.wrong != "" {
				return result{len(list), r.steps, st.wrong, story(at, fmt.Sprint(st.action))}
			}
			to, _ := visitState(st.to, visit{at, st.action})
			if st.orderly {
				orderly = append(orderly, edge{at, to})
			}
		}
	}
	r.states = len(list)

	good := m.leave(list, orderly) // from everywhere they must
	for at := range list {
		if !good[at] {
			r.wrong, r.story = "what is left here stays for ever", story(int32(at))
			break
		}
	}
	return r
}

func (r result) String() string {
	if r.wrong == "" {
		return fmt.Sprintf("%d states, %d steps", r.states, r.steps)
	}
	return fmt.Sprintf("%s, after %d states:\n\t%s", r.wrong, r.states, strings.Join(r.story, "\n\t"))
}

// leave tells from which states orderly steps lead to nothing. It goes back from there, over
// the steps sorted by where they lead.
func (m *model) leave(list []state, orderly []edge) (good []bool) {
	start := make([]int32, len(list)+1)
	for _, e := range orderly {
		start[e.to+1]++
	}
	for i := range list {
		start[i+1] += start[i]
	}
	fill := append([]int32(nil), start...)
	back := make([]int32, len(orderly))
	for _, e := range orderly {
		back[fill[e.to]] = e.from
		fill[e.to]++
	}
	good = make([]bool, len(list))
	var next []int32
	mark := func(at int32) {
		if !good[at] {
			good[at] = true
			next = append(next, at)
		}
	}
	for at := range list {
		if list[at].empty() {
			mark(int32(at))
		}
	}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for _, from := range back[start[at]:start[at+1]] {
			mark(from)
		}
	}
	return good
}
