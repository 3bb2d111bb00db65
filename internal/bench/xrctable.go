package bench

import (
	"fmt"

	"github.com/rds-go/rds/rds"
)

// Table is no kind of Work but what the works of RDS on XRC are asked for by.
const Table Kind = "xrc"

// wire is what --wire says, for a node.
func (o *Options) wire() rds.Wire {
	if o.Wire == "auto" {
		return rds.WireAuto
	}
	return rds.Wire(o.Wire)
}

// crc is what --crc says, for a node.
func (o *Options) crc() rds.CRC {
	if o.CRC == CRCAuto {
		return rds.CRCAuto
	}
	return rds.CRC(o.CRC)
}

// xrcTable is what rdsbench xrc does: small messages beside RDS over TCP, large
// ones and blocks beside plain TCP, many sockets on one connection, and one of 32
// applications that has stopped.
func (o *Options) xrcTable() []Work {
	oneWay := func(size, batch int) Work {
		return Work{Kind: OneWay, Size: size, Batch: batch, ZeroCopy: o.zeroCopy(size), OverTCP: true, Baseline: true}
	}
	works := []Work{
		{Kind: Latency, Size: 64, Batch: 1, Pin: PinSame, OverTCP: true, Baseline: true},
		oneWay(64, 1), oneWay(64, 64), oneWay(8<<10, 8), oneWay(1<<20, 1),
		{Kind: Mux, Size: 256, Reply: 64, Depth: 8, Batch: 8, Sockets: 64, Peers: 64, OverTCP: true},
		{Kind: Mux, Size: 256, Reply: 64, Depth: 64, Batch: 64, Sockets: 64, Peers: 64, OverTCP: true},
		{Kind: Fetch, Size: 8 << 10, Depth: 32, Batch: fetchBatch, Baseline: true},
		{Kind: Mux, Size: 256, Reply: 64, Depth: 32, Batch: 32, Sockets: 32, Peers: 32, Stopped: 1},
	}
	if o.Provider == rds.ProviderDaemon { // the comparison is with an embedded node
		for i := range works {
			works[i].OverTCP, works[i].Baseline = false, works[i].Kind != Mux
		}
		last := &works[len(works)-1]
		last.Sockets, last.Peers, last.Processes = 1, 1, 32
	}
	return works
}

// belowSockets tells whether the work needs no provider.
func (w *Work) belowSockets() bool { return w.Kind == RDMA || w.Verbs }

// activeSentence says what the others lose by those that have stopped.
func (row *Row) activeSentence() string {
	if row.Active == nil {
		return ""
	}
	return fmt.Sprintf("%s: the others have %.2f of the rate without it", row.Title, row.OfActive)
}
