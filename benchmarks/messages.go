package main

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"time"
)

// Messages start with a type byte; a timestamp is at byte 8.
const (
	mPing  = 'P' // echo it
	mData  = 'D' // count it; if byte 1 is set, answer mAck
	mAck   = 'K'
	mEnd   = 'E' // answer mStats and start counting anew
	mStats = 'S'
	mMsg   = 'M' // answer muxReply bytes
	mGC    = 'G' // collect garbage, then answer mStats
	mOpen  = 'O' // open the sockets of the sockets workload, then answer mStats
)

// A tally answers the messages of one flow or socket at the server.
type tally struct {
	n   uint64
	out []byte // the last answer
}

// answer handles message m: it returns what to send back, or nil.
func (t *tally) answer(m []byte) []byte {
	if t.out == nil {
		t.out = make([]byte, 64)
	}
	out := t.out
	switch m[0] {
	case mData:
		t.n++
		if m[1] != 0 {
			out[0] = mAck
			return out[:64]
		}
		return nil
	case mPing:
		return m
	case mMsg:
		copy(out, m[:16])
		return out[:muxReply]
	case mGC:
		debug.FreeOSMemory()
		fallthrough
	case mEnd, mOpen:
		out[0] = mStats
		binary.LittleEndian.PutUint64(out[8:], t.n)
		binary.LittleEndian.PutUint64(out[16:], uint64(ownCPU()*1e6))
		binary.LittleEndian.PutUint64(out[24:], uint64(rssKB("self")))
		t.n = 0
		return out[:64]
	}
	return nil
}

type serverStats struct {
	n     uint64
	cpu   float64
	rssKB int64
}

func parseStats(m []byte) serverStats {
	return serverStats{binary.LittleEndian.Uint64(m[8:]),
		float64(binary.LittleEndian.Uint64(m[16:])) / 1e6,
		int64(binary.LittleEndian.Uint64(m[24:]))}
}

var epoch = time.Now()

func stamp(m []byte) { binary.LittleEndian.PutUint64(m[8:], uint64(time.Since(epoch))) }
func age(m []byte) time.Duration {
	return time.Since(epoch) - time.Duration(binary.LittleEndian.Uint64(m[8:]))
}
func newMsg(t byte, n int) []byte { m := make([]byte, n); m[0] = t; return m }

// Result lines. run.sh adds the peer's name.

func printPingpong(e *env, h *hist, cpu float64) {
	fmt.Printf("w=pingpong size=%d p50=%.2f p99=%.2f mean=%.2f cpu=%.2f\n", e.size, h.us(.5), h.us(.99), h.mean(), cpu/float64(h.n.Load())*1e6)
}

func printOneWay(e *env, n uint64, sec, cpu float64) {
	fmt.Printf("w=oneway size=%d rate=%.0f mbps=%.1f cpu=%.3f cpugb=%.3f\n", e.size, float64(n)/sec,
		float64(n)*float64(e.size)/sec/1e6, cpu/float64(n)*1e6, cpu/float64(n)/float64(e.size)*1e9)
}

func printReply(n int64, sec, cpu float64, h *hist, conns int, crss, srss int64) {
	fmt.Printf("w=mux rate=%.0f p50=%.1f p99=%.1f cpu=%.3f conns=%d rssc=%.1f rsss=%.1f\n", float64(n)/sec, h.us(.5), h.us(.99),
		cpu/float64(n)*1e6, conns, float64(crss)/1024, float64(srss)/1024)
}

func printSockets(n int, open float64, crss, srss, slab int64, conns int) {
	f := float64(n)
	fmt.Printf("w=sockets n=%d open=%.3f kbc=%.2f kbs=%.2f kbk=%.2f conns=%d\n", n, open, float64(crss)/f, float64(srss)/f, float64(slab)/f, conns)
}
