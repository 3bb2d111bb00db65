package mpa

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// sealedPair is a set-up with seals, and its two frames.
func sealedPair(t *testing.T) (p Params, request, reply []byte) {
	t.Helper()
	p = Params{IRD: 4, ORD: 4, CRC: true, PeerToPeer: true, Private: []byte("what is private"), Seal: true}
	i, err := NewInitiator(p)
	must(t, err)
	request = i.AppendRequest([]byte("before"))[len("before"):]
	accepts := p
	accepts.Seal = false
	reply, set, err := respond(t, accepts, request, 7)
	if err != nil || !set.Sealed || string(set.PeerPrivate) != "what is private" {
		t.Fatalf("%+v, %v", set, err)
	}
	n, set, err := i.Feed(reply)
	if err != nil || n != len(reply) || set == nil || !set.Sealed || string(set.PeerPrivate) != "what is private" {
		t.Fatalf("%d of %d octets, %+v, %v", n, len(reply), set, err)
	}
	return p, request, reply
}

// A frame of which one bit changes on its way is refused, or waits for octets that do not
// come, or has no seal, which the upper layer sees. A Reply that accepts never becomes one
// that rejects: the upper layer would take that for the peer's word.
func TestChangedFrameIsNotTaken(t *testing.T) {
	t.Parallel()
	p, request, reply := sealedPair(t)
	for bit := range 8 * len(request) {
		b := bytes.Clone(request)
		b[bit/8] ^= 1 << (bit % 8)
		r, _ := NewResponder(p)
		if q, err := r.Feed(b); err == nil && q != nil && q.Sealed {
			t.Errorf("bit %d of the Request: taken as %+v", bit, q)
		}
	}
	for bit := range 8 * len(reply) {
		b := bytes.Clone(reply)
		b[bit/8] ^= 1 << (bit % 8)
		i, _ := NewInitiator(p)
		_, set, err := i.Feed(b)
		var rejected *RejectedError
		if err == nil && set != nil && set.Sealed || errors.As(err, &rejected) {
			t.Errorf("bit %d of the Reply: %+v, %v", bit, set, err)
		}
	}
	b := bytes.Clone(reply)
	b[len(b)-1] ^= 1
	i, _ := NewInitiator(p)
	if _, _, err := i.Feed(b); !errors.Is(err, ErrSeal) {
		t.Errorf("wrong checksum: %v", err)
	}
}

// A side without seals takes a seal for private data, and does not answer by one.
func TestSealsAreNotAskedOfPlainPeers(t *testing.T) {
	t.Parallel()
	p, _, _ := sealedPair(t)
	plain := p
	plain.Seal = false
	i, _ := NewInitiator(plain)
	request := i.AppendRequest(nil)
	reply, set, err := respond(t, p, request, 1000)
	if err != nil || set.Sealed {
		t.Fatalf("%+v, %v", set, err)
	}
	if _, set, err = i.Feed(reply); err != nil || set.Sealed || !bytes.Equal(set.PeerPrivate, plain.Private) {
		t.Errorf("%+v, %v", set, err)
	}
	sealing, _ := NewInitiator(p)
	sealed := sealing.AppendRequest(nil)
	f, need, err := DecodeFrame(sealed, MaxPrivate)
	if err != nil || need != 0 || !bytes.HasPrefix(f.Private[PrefixLen:], p.Private) || len(f.Private) != PrefixLen+len(p.Private)+SealLen {
		t.Errorf("%+v, need %d, %v", f, need, err)
	}
	if _, set, err = sealing.Feed(reply); err != nil || set.Sealed {
		t.Errorf("the Reply of a peer without seals: %+v, %v", set, err)
	}
	p.Private = make([]byte, MaxPrivate-PrefixLen-SealLen+1)
	if err := p.Validate(); !errors.Is(err, ErrPrivate) {
		t.Errorf("%d octets of private data: %v", len(p.Private), err)
	}
}

// A rejecting Reply has a seal, too.
func TestRejectIsSealed(t *testing.T) {
	t.Parallel()
	p, request, _ := sealedPair(t)
	r := asked(t, p, request)
	if err := r.Reject(make([]byte, MaxReplyPrivate-PrefixLen-SealLen+1)); !errors.Is(err, ErrPrivate) {
		t.Errorf("Reject: %v", err)
	}
	must(t, r.Reject([]byte("no")))
	sealed, err := unseal(r.Reply())
	var rejected *RejectedError
	i, _ := NewInitiator(p)
	_, _, refused := i.Feed(r.Reply())
	if !sealed || err != nil || !errors.As(refused, &rejected) || string(rejected.Private) != "no" {
		t.Errorf("%v, %v, %v", sealed, err, refused)
	}
}

// FuzzSeal: whatever frame is sealed is found as it was.
func FuzzSeal(f *testing.F) {
	f.Add(true, uint8(2), []byte("private"), uint16(170))
	f.Add(false, uint8(1), []byte("MPAc"), uint16(0))
	f.Fuzz(func(t *testing.T, reply bool, rev uint8, private []byte, bit uint16) {
		frame := Frame{Reply: reply, Rev: 1 + rev%2, Private: append([]byte{}, private[:min(len(private), MaxPrivate-SealLen)]...)}
		b := seal(frame.AppendTo(nil))
		var in inbox
		got, n, whole, err := in.take(b, reply, MaxPrivate)
		if err != nil || !whole || n != len(b) || !in.sealed || !reflect.DeepEqual(got, frame) {
			t.Fatalf("%+v, %d octets, %v, %v; want %+v", got, n, whole, err, frame)
		}
		b[int(bit)/8%len(b)] ^= 1 << (bit % 8)
		in = inbox{}
		if _, _, whole, err := in.take(b, reply, MaxPrivate); err == nil && whole && in.sealed {
			t.Fatalf("taken with bit %d changed", bit)
		}
	})
}
