package bench

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// A journal is what a socket of a soak has to tell, in all its lives, in a file that
// is mapped: what was stored is there when the process is killed at any point. It is
// words: a head with the number of records and the account, records, and at the end
// what each lane of a client has under way. Without files it is in memory.
type journal struct {
	words
	unmap func() error
}

const (
	journalHead   = 64                   // words
	journalRecord = 8                    // words
	journalLanes  = maxDepth * laneWords // words at the end
	journalWords  = 1 << 21              // 16 MiB at most; a file takes what was written
)

var errJournal = errors.New("verify: the journal is full")

// words are memory as words of 8 bytes.
type words []byte

func (w words) at(i int) uint64     { return binary.NativeEndian.Uint64(w[i*wordSize:]) }
func (w words) set(i int, v uint64) { binary.NativeEndian.PutUint64(w[i*wordSize:], v) }
func (w words) inc(i int)           { w.set(i, w.at(i)+1) }

// slice is n words from the i-th on.
func (w words) slice(i, n int) words { return w[i*wordSize:][: n*wordSize : n*wordSize] }

// record is one of a journal. Its meaning follows from the kind, the first word.
type record struct{ words }

// Kinds of record, and what follows.
const (
	recordLost uint64 = iota + 1 // client: reason, server socket, our life, number, the server's life it was sent to
	recordAdds                   // client: server socket, server life, begun, done, highest word found, refused
	recordFlow                   // server: client socket, client life, next number
	recordGap                    // server: client socket, client life, from, to, our life
	recordLife                   // server: our life, the shared word, whether the life has ended by itself
)

// Reasons why a message may be missing.
const (
	lostDropped uint64 = iota + 1 // the message's fate was DROPPED
	lostRefused                   // the message's operation was refused, by the key of a life that is over
	lostVoid                      // the message's fate was success, and the life of its receiver is over
	lostDied                      // the life of the message's sender ended first
)

// journalName is the file of a socket.
func journalName(dir string, server bool, socket int) string {
	return filepath.Join(dir, map[bool]string{false: "c", true: "s"}[server]+strconv.Itoa(socket))
}

// openJournal maps a journal, and makes it if it is not there.
func openJournal(name string) (*journal, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = journalWords * wordSize
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(errors.New("map the journal"), os.NewSyscallError("mmap", err))
	}
	return &journal{words: b, unmap: func() error { return syscall.Munmap(b) }}, nil
}

// add appends a record.
func (j *journal) add(kind uint64, values ...uint64) (record, error) {
	at := journalHead + int(j.at(0))*journalRecord
	if (at+journalRecord+journalLanes)*wordSize > len(j.words) {
		return record{}, errJournal
	}
	r := record{j.slice(at, journalRecord)}
	for i, v := range values {
		r.set(1+i, v)
	}
	r.set(0, kind)
	j.inc(0) // last: a record that is half written does not count
	return r, nil
}

// records calls f for all of a kind.
func (j *journal) records(kind uint64, f func(r record)) {
	for i := range int(j.at(0)) {
		if r := (record{j.slice(journalHead+i*journalRecord, journalRecord)}); r.at(0) == kind {
			f(r)
		}
	}
}

const (
	headAccount = 8 // word where the account begins
	laneWords   = 4 // server socket + 1, number, life; 0: nothing
)

func newJournal(words int) *journal {
	return &journal{words: make([]byte, words*wordSize), unmap: func() error { return nil }}
}

// told is the journal without what soakCheck has no use for, as one process tells another.
func (j *journal) told() []byte {
	out := newJournal(journalHead + int(j.at(0))*journalRecord + journalLanes)
	out.setAccount(j.account())
	for kind := recordLost; kind <= recordLife; kind++ {
		if kind != recordFlow {
			j.records(kind, func(r record) { _, _ = out.add(kind, r.at(1), r.at(2), r.at(3), r.at(4), r.at(5), r.at(6)) }) // there is room
		}
	}
	return out.words[:(journalHead+int(out.at(0))*journalRecord)*wordSize]
}

// account is the socket's account so far.
func (j *journal) account() *account {
	var a account
	for i, p := range a.fields() {
		*p = j.at(headAccount + i)
	}
	return &a
}

func (j *journal) setAccount(a *account) {
	for i, p := range a.fields() {
		j.set(headAccount+i, *p)
	}
}

// lane is what a lane has under way.
func (j *journal) lane(i int) words { return j.slice(len(j.words)/wordSize-(i+1)*laneWords, laneWords) }

// died notes what a life leaves behind that has ended.
func (j *journal) died(lanes int) error {
	for i := range lanes {
		w := j.lane(i)
		if w.at(0) == 0 {
			continue
		}
		if _, err := j.add(recordLost, lostDied, w.at(0)-1, w.at(2), w.at(1)); err != nil {
			return err
		}
		w.set(0, 0)
	}
	return nil
}
