package bench

func soakWork() *Work {
	return &Work{Kind: Stress, Ops: true, Kills: 1, Sockets: 1, Peers: 1, Processes: 1, Depth: 1, Size: 128, Sizes: []int{128}, Reply: 128, Faults: true}
}

func newTestJournal() *journal {
	return newJournal(journalHead + 64*journalRecord + journalLanes)
}
