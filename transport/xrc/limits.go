package xrc

import (
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// limits are the attributes of a target that its initiator keeps to. A segment names no target,
// so the side of the initiator enforces them: it refuses what the target does not allow, as the
// target would, and tells (recordRefused). The side of the target refuses what no target of the
// peer in the domain allows (finder.Protection).
//
//	1 octet  2: writes, 4: reads, 8: atomics are allowed
//	1 octet  code of the RNR timer
type limits struct {
	access mr.Rights // of RemoteWrite, RemoteRead and RemoteAtomic
	rnr    uint8     // Attr.MinRNRTimer
}

const remoteRights = mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic

func limitsOf(a *objects.Attr) limits { return limits{a.Access & remoteRights, a.MinRNRTimer} }

func (l *limits) appendTo(b []byte) []byte { return append(b, byte(l.access), l.rnr) }

func decodeLimits(b []byte) limits { return limits{mr.Rights(b[0]) & remoteRights, b[1] & 31} }

// allow tells whether the target takes such a request; depth is how many reads and atomics it
// takes at a time.
func (l *limits) allow(op iwarp.Op, depth int) bool {
	var needs mr.Rights
	switch op {
	case iwarp.OpWrite:
		needs = mr.RemoteWrite
	case iwarp.OpRead:
		needs = mr.RemoteRead
	case iwarp.OpFetchAdd, iwarp.OpCompareSwap:
		needs = mr.RemoteAtomic
	}
	return l.access&needs == needs && (!answered(op) || depth > 0)
}

// targetLimits are new limits of a target.
type targetLimits struct {
	target objects.Ref
	limits limits
	reads  uint8
}

// rnrTimes are the waits that the codes of an RNR timer stand for, in 10 µs.
var rnrTimes = [32]time.Duration{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// wait is how long an initiator waits that has met an empty queue.
func (l *limits) wait() time.Duration { return rnrTimes[l.rnr] * 10 * time.Microsecond }
