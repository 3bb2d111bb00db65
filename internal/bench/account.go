package bench

import "fmt"

// account is what became of everything that the sockets of a verified stress with operations sent.
type account struct {
	Messages  uint64 `json:"messages"` // messages sent, with an operation or without; those that had to be refused not counted
	Replies   uint64 `json:"replies"`
	Late      uint64 `json:"late"` // replies to messages that were reported dropped
	Writes    uint64 `json:"writes"`
	Reads     uint64 `json:"reads"`
	Atomics   uint64 `json:"atomics"`
	Bytes     uint64 `json:"bytes"` // written and read
	Refused   uint64 `json:"refused"`
	Dropped   uint64 `json:"dropped"` // exchanges lost with a connection
	Unsure    uint64 `json:"unsure"`  // dropped exchanges that had a message
	Adds      uint64 `json:"adds"`    // additions to shared words
	UnsureAdd uint64 `json:"unsure_adds"`
	Cuts      uint64 `json:"cuts"` // connections cut
	Exchanges uint64 `json:"exchanges,omitempty"`
	Regions   uint64 `json:"regions,omitempty"`  // regions that lanes have had
	Released  uint64 `json:"released,omitempty"` // ended regions that were found untouched since their end

	// Where processes are killed or daemons restarted.
	Void     uint64 `json:"void,omitempty"`     // messages delivered to a life that has ended, without a reply
	Ended    uint64 `json:"ended,omitempty"`    // operations refused because the region's life had ended
	Lives    uint64 `json:"lives,omitempty"`    // lives of client sockets that ended with their daemon
	Kills    uint64 `json:"kills,omitempty"`    // processes killed
	Restarts uint64 `json:"restarts,omitempty"` // daemons restarted
}

func (a *account) fields() []*uint64 {
	return []*uint64{
		&a.Messages, &a.Replies, &a.Late, &a.Writes, &a.Reads, &a.Atomics, &a.Bytes, &a.Refused, &a.Dropped, &a.Unsure, &a.Adds, &a.UnsureAdd, &a.Cuts,
		&a.Exchanges, &a.Void, &a.Ended, &a.Regions, &a.Released, &a.Lives, &a.Kills, &a.Restarts,
	}
}

func (a *account) add(b *account) {
	from := b.fields()
	for i, to := range a.fields() {
		*to += *from[i]
	}
}

// accountSentence says what was verified, and in spite of what.
func (row *Row) accountSentence() string {
	a := row.RDS.Account
	s := fmt.Sprintf("%s: %d messages and %d replies, %d writes, %d reads (%s in all), %d atomics, %d refused as they had to be",
		row.Title, a.Messages, a.Replies+a.Late, a.Writes, a.Reads, FormatSize(int(a.Bytes)), a.Atomics, a.Refused)
	switch {
	case row.Work.mortal():
		s += fmt.Sprintf("; %d processes killed, %d daemons restarted, %d connections cut; %d exchanges dropped and reported, %d refused and %d unanswered by lives that had ended; "+
			"%d regions untouched after their end", a.Kills, a.Restarts, a.Cuts, a.Dropped, a.Ended, a.Void, a.Released)
	case a.Cuts > 0:
		s += fmt.Sprintf("; %d connections cut, %d exchanges lost with them and reported", a.Cuts, a.Dropped)
	}
	return s + "; everything verified"
}
