package xctl

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
)

func mustOffer(t testing.TB, b Block, upper string) []byte {
	t.Helper()
	p, err := b.Offer(nil, []byte(upper))
	must(t, err)
	return p
}

// Both sides come to the same result, each from its own end, and know the
// other's limits.
func TestBothSidesAgree(t *testing.T) {
	t.Parallel()
	full := aBlock()
	send, take := full, full
	send.Caps &^= CapTarget
	take.Caps &^= CapInitiator
	noCredit := full
	noCredit.Caps &= CapSoftRead | CapPing | CapInterleave
	for _, c := range []struct {
		name           string
		offers, asked  Block
		ours           Caps // what the initiator may count on
		initiatorULPDU int
	}{
		{"equals", full, full, full.Caps, 64768},
		{"one sends, the other takes", send, take, send.Caps, 64768},
		{"one takes, the other sends", take, send, take.Caps, 64768},
		{"both only send", send, send, full.Caps &^ (capRoles | CapRNR), 64768},
		{"both only take", take, take, full.Caps &^ (capRoles | CapRNR), 64768},
		{"no queues at all", full, noCredit, noCredit.Caps, 0},
		{"the smaller set", full, smallBlock(), CapInitiator | CapCredit | CapRNR, 0},
	} {
		ans, upper, err := c.asked.Negotiate(mustOffer(t, c.offers, "request"))
		if err != nil || string(upper) != "request" || !ans.Extended || ans.Caps != c.ours.mirrored() || ans.Peer != c.offers {
			t.Errorf("%s: the responder has %+v, %q, %v", c.name, ans.Agreed, upper, err)
		}
		reply, err := ans.AppendTo(nil, []byte("reply"))
		must(t, err)
		a, upper, err := c.offers.Settle(reply)
		want := c.asked
		want.Caps = ans.Caps
		if err != nil || string(upper) != "reply" || !a.Extended || a.Caps != c.ours || a.Peer != want || a.MaxULPDU() != c.initiatorULPDU {
			t.Errorf("%s: the initiator has %+v, %q, %v", c.name, a, upper, err)
		}
	}
}

// What is no block of ours is the upper layer's: negative tests of the block.
func TestPlainPeersStayPlain(t *testing.T) {
	t.Parallel()
	own := aBlock()
	good := mustOffer(t, aBlock(), "")
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, private := range map[string][]byte{
		"nothing":               nil,
		"other data":            []byte("some other application's data, longer than a block is"),
		"truncated":             good[:31],
		"only the magic":        good[:4],
		"magic in the middle":   append([]byte{0}, good...),
		"length 0":              edit(func(b []byte) []byte { b[5] = 0; return b }),
		"length 7":              edit(func(b []byte) []byte { b[5] = 7; return b }),
		"longer than the frame": edit(func(b []byte) []byte { b[5] = 9; return b }),
		"version 0":             edit(func(b []byte) []byte { b[4] = 0; return b }),
		"another magic":         edit(func(b []byte) []byte { b[3] ^= 1; return b }),
	} {
		ans, upper, err := own.Negotiate(private)
		if err != nil || ans.Extended || !bytes.Equal(upper, private) {
			t.Errorf("%s: %+v, %x, %v", name, ans, upper, err)
		}
		// A plain Request gets a plain Reply, of any length that MPA takes.
		if reply, err := ans.AppendTo(nil, make([]byte, 300)); err != nil || len(reply) != 300 {
			t.Errorf("%s: %d octets, %v", name, len(reply), err)
		}
		a, upper, err := own.Settle(private)
		if err != nil || a != (Agreed{}) || !bytes.Equal(upper, private) {
			t.Errorf("%s: %+v, %x, %v", name, a, upper, err)
		}
	}
}

func TestLaterVersionsAreAnsweredWithOurs(t *testing.T) {
	t.Parallel()
	own := aBlock()
	offer := mustOffer(t, aBlock(), "")
	offer[4], offer[5] = 9, 10
	offer = append(offer, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'h', 'i')
	offer[6] |= 0x80 // capabilities of the future
	ans, upper, err := own.Negotiate(offer)
	if err != nil || !ans.Extended || ans.Caps != own.Caps || ans.Peer.Caps != own.Caps || string(upper) != "hi" {
		t.Errorf("%+v, %q, %v", ans, upper, err)
	}
	reply, _ := ans.AppendTo(nil, nil)
	if reply[4] != 1 || reply[5] != 8 || len(reply) != BlockLen {
		t.Errorf("the answer is %x", reply)
	}
	// An answer of a version that nobody offered is one to something else.
	reply[4] = 2
	if _, _, err := own.Settle(reply); !errors.Is(err, ErrVersion) || !errors.Is(err, syscall.EPROTO) {
		t.Errorf("settled with version 2: %v", err)
	}
}

// Values that no block of ours has are read as what is safest.
func TestSenselessLimitsAreTakenDown(t *testing.T) {
	t.Parallel()
	own := aBlock()
	offer := mustOffer(t, aBlock(), "")
	offer[20], offer[21], offer[22] = 0, 127, 0             // MaxULPDU, credit
	offer[16], offer[17], offer[18], offer[19] = 0, 0, 0, 0 // MaxSRQ
	ans, _, err := own.Negotiate(offer)
	if err != nil || ans.Peer.MaxULPDU != 0 || ans.MaxULPDU() != 0 || ans.Peer.Credit != 1 || ans.Caps.Has(CapInitiator) || !ans.Caps.Has(CapTarget) {
		t.Errorf("%+v, %v", ans.Agreed, err)
	}
	// Nothing that was not offered comes true by being answered.
	few := smallBlock()
	a, _, err := few.Settle(mustOffer(t, aBlock(), ""))
	if err != nil || a.Caps != few.Caps {
		t.Errorf("%v, %v", a.Caps, err)
	}
}

func TestBadBlocksAreRefused(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*Block){
		"Caps":                 func(b *Block) { b.Caps |= 1 << 15 },
		"RNR without credit":   func(b *Block) { b.Caps = CapRNR },
		"roles without credit": func(b *Block) { b.Caps = CapTarget },
		"MaxSRQ":               func(b *Block) { b.MaxSRQ = 0 },
		"MaxULPDU":             func(b *Block) { b.MaxULPDU = 127 },
		"Credit":               func(b *Block) { b.Credit = 0 },
	} {
		b := aBlock()
		f(&b)
		_, err := b.Offer(nil, nil)
		_, _, err2 := b.Negotiate(nil)
		if !errors.Is(err, ErrBlock) || !errors.Is(err, syscall.EINVAL) || !errors.Is(err2, ErrBlock) {
			t.Errorf("%s: %v, %v", name, err, err2)
		}
	}
	b := aBlock()
	b.MaxULPDU = 128
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	offer := mustOffer(t, b, string(make([]byte, MaxPrivate)))
	if len(offer)+4 != 256 {
		t.Errorf("%d octets beside the prefix", len(offer))
	}
	if _, err := b.Offer(nil, make([]byte, MaxPrivate+1)); !errors.Is(err, ErrPrivate) || !errors.Is(err, syscall.EMSGSIZE) {
		t.Error(err)
	}
	ans, _, _ := b.Negotiate(offer)
	if _, err := ans.AppendTo(nil, make([]byte, MaxPrivate+1)); !errors.Is(err, ErrPrivate) {
		t.Error(err)
	}
}
