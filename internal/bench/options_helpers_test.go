package bench

import "time"

func goodOptions() Options {
	return Options{Paths: 1, Provider: "node", Pin: PinNone, ZeroCopy: "auto", Duration: time.Second, Repeat: 1,
		CRC: CRCOff, Sizes: []int{64}, Reply: 64, Depth: 8, Sockets: 4, Peers: 4}
}

func soakWork() *Work {
	return &Work{Kind: Stress, Ops: true, Kills: 1, Sockets: 1, Peers: 1, Processes: 1, Depth: 1, Size: 128, Sizes: []int{128}, Reply: 128, Faults: true}
}

func newTestJournal() *journal {
	return newJournal(journalHead + 64*journalRecord + journalLanes)
}
