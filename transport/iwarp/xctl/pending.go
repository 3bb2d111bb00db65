package xctl

import "github.com/rds-go/rds/internal/fifo"

// pending holds records of one type until they are sent. appendTo is called when there
// are some.
type pending interface {
	// appendTo moves records to dst until they are all, or the next one would
	// make it longer than end.
	appendTo(dst []byte, end int) (b []byte, all bool)
}

// lone is a record of which the latest is enough.
type lone[T Record] struct{ v T }

func (l *lone[T]) appendTo(dst []byte, end int) ([]byte, bool) { return appendBelow(dst, end, l.v) }

// appendBelow appends a record, unless that would make b longer than end.
func appendBelow[T Record](b []byte, end int, r T) ([]byte, bool) {
	t, words := r.encode()
	if len(b)+t.Len() > end {
		return b, false
	}
	return words.appendTo(b, t), true
}

// inOrder are records of which all count.
type inOrder[T Record] struct{ fifo.Queue[T] }

// push adds a record unless there are as many as may wait.
func (q *inOrder[T]) push(most int, v T) bool {
	if q.Len() >= most {
		return false
	}
	q.Push(v)
	return true
}

func (q *inOrder[T]) appendTo(dst []byte, end int) (b []byte, all bool) {
	n := 0
	for _, v := range q.All() {
		if dst, all = appendBelow(dst, end, v); !all {
			break
		}
		n++
	}
	q.Drop(n)
	return dst, q.Len() == 0
}

// perKey holds the latest record of each key, in the order in which the keys came.
type perKey[K comparable, T interface {
	Record
	key() K
}] struct {
	list []T
	head int
	at   map[K]int // index in list of each key from head on; empty while there were at most searchMost
}

// searchMost is how many records are searched for a key without a map.
const searchMost = 8

// waiting is how many there are.
func (p *perKey[K, T]) waiting() int { return len(p.list) - p.head }

func (p *perKey[K, T]) empty() bool { return p.head == len(p.list) }

// find returns the index of the record of a key, len(list) if there is none.
func (p *perKey[K, T]) find(k K) int {
	if len(p.at) > 0 {
		if i, ok := p.at[k]; ok {
			return i
		}
		return len(p.list)
	}
	i := p.head
	for i < len(p.list) && p.list[i].key() != k {
		i++
	}
	return i
}

func (p *perKey[K, T]) set(v T) {
	if i := p.find(v.key()); i < len(p.list) {
		p.list[i] = v
		return
	}
	if p.head > 0 && len(p.list) == cap(p.list) {
		p.list = p.list[:copy(p.list, p.list[p.head:])]
		p.head = 0
		clear(p.at)
	}
	p.list = append(p.list, v)
	switch {
	case len(p.at) > 0:
		p.at[v.key()] = len(p.list) - 1
	case p.waiting() > searchMost:
		if p.at == nil {
			p.at = make(map[K]int)
		}
		for i := p.head; i < len(p.list); i++ {
			p.at[p.list[i].key()] = i
		}
	}
}

func (p *perKey[K, T]) appendTo(dst []byte, end int) ([]byte, bool) {
	for ; !p.empty(); p.head++ {
		var ok bool
		if dst, ok = appendBelow(dst, end, p.list[p.head]); !ok {
			return dst, false
		}
		delete(p.at, p.list[p.head].key())
	}
	p.list, p.head = p.list[:0], 0
	return dst, true
}
