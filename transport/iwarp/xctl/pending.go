package xctl

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

// fifo is a queue that keeps its memory.
type fifo[T Record] struct {
	list []T
	head int
}

func (q *fifo[T]) empty() bool { return q.head == len(q.list) }

// push adds a record unless there are Limit already.
func (q *fifo[T]) push(v T) bool { return q.pushBelow(Limit, v) }

func (q *fifo[T]) pushBelow(limit int, v T) bool {
	if len(q.list)-q.head == limit {
		return false
	}
	if q.head > 0 && len(q.list) == cap(q.list) {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	q.list = append(q.list, v)
	return true
}

func (q *fifo[T]) appendTo(dst []byte, end int) ([]byte, bool) {
	for ; !q.empty(); q.head++ {
		var ok bool
		if dst, ok = appendBelow(dst, end, q.list[q.head]); !ok {
			return dst, false
		}
	}
	q.list, q.head = q.list[:0], 0
	return dst, true
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
