package xctl

// record is one of the types of records.
type record interface {
	Type() Type
	AppendTo(b []byte) []byte
}

// pending holds records of one type until they are sent.
type pending interface {
	// appendTo moves records to dst until they are all, or the next one would
	// make it longer than end.
	appendTo(dst []byte, end int) (b []byte, all bool)
}

// lone is a record of which the latest is enough.
type lone[T record] struct {
	v   T
	set bool
}

func (l *lone[T]) appendTo(dst []byte, end int) ([]byte, bool) {
	if !l.set {
		return dst, true
	}
	if len(dst)+l.v.Type().Len() > end {
		return dst, false
	}
	l.set = false
	return l.v.AppendTo(dst), true
}

// fifo is a queue that keeps its memory.
type fifo[T record] struct {
	list []T
	head int
}

func (q *fifo[T]) empty() bool { return q.head == len(q.list) }

// push adds a record unless there are Limit already.
func (q *fifo[T]) push(v T) bool {
	if len(q.list)-q.head == Limit {
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
		v := q.list[q.head]
		if len(dst)+v.Type().Len() > end {
			return dst, false
		}
		dst = v.AppendTo(dst)
	}
	q.list, q.head = q.list[:0], 0
	return dst, true
}

// perQueue holds the latest record of each queue, in the order in which the
// queues came.
type perQueue[T interface {
	record
	queue() SRQN
}] struct {
	list []T
	head int
	at   map[SRQN]int // in list, of those from head on
}

func (p *perQueue[T]) empty() bool { return p.head == len(p.list) }

func (p *perQueue[T]) set(v T) {
	if p.at == nil {
		p.at = make(map[SRQN]int)
	}
	if i, ok := p.at[v.queue()]; ok {
		p.list[i] = v
		return
	}
	if p.head > 0 && len(p.list) == cap(p.list) {
		p.list = p.list[:copy(p.list, p.list[p.head:])]
		p.head = 0
		for i := range p.list {
			p.at[p.list[i].queue()] = i
		}
	}
	p.at[v.queue()] = len(p.list)
	p.list = append(p.list, v)
}

func (p *perQueue[T]) appendTo(dst []byte, end int) ([]byte, bool) {
	for ; !p.empty(); p.head++ {
		v := p.list[p.head]
		if len(dst)+v.Type().Len() > end {
			return dst, false
		}
		dst = v.AppendTo(dst)
		delete(p.at, v.queue())
	}
	p.list, p.head = p.list[:0], 0
	return dst, true
}
