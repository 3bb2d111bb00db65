package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const (
	hexRequest = "4d504120494420526571204672616d65 "
	hexReply   = "4d504120494420526570204672616d65 "
)

// frames as octets. The first two were sent by siw, for rping.
var frames = []struct {
	name, hex string
	frame     Frame
}{
	{"siw's Request", hexRequest + "10 02 0004 0001 0001", Frame{Enhanced: true, Rev: 2, Private: []byte{0, 1, 0, 1}}},
	{"siw's Reply", hexReply + "10 02 0004 0001 0001", Frame{Reply: true, Enhanced: true, Rev: 2, Private: []byte{0, 1, 0, 1}}},
	{"smallest Request", hexRequest + "00 01 0000", Frame{Rev: 1, Private: []byte{}}},
	{"markers", hexRequest + "80 01 0000", Frame{Markers: true, Rev: 1, Private: []byte{}}},
	{"CRC", hexRequest + "40 01 0000", Frame{CRC: true, Rev: 1, Private: []byte{}}},
	{"rejecting", hexReply + "20 01 0003 6e6f21", Frame{Reply: true, Reject: true, Rev: 1, Private: []byte("no!")}},
	{"all flags", hexReply + "f0 02 0004 8000 4000",
		Frame{Reply: true, Markers: true, CRC: true, Reject: true, Enhanced: true, Rev: 2, Private: []byte{0x80, 0, 0x40, 0}}},
	{"most private data", hexRequest + "00 01 0200" + strings.Repeat("aa", 512), Frame{Rev: 1, Private: bytes.Repeat([]byte{0xaa}, 512)}},
}

func TestFramesAreTheirOctets(t *testing.T) {
	t.Parallel()
	for _, c := range frames {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := unhex(t, c.hex)
			if got := c.frame.AppendTo([]byte("x")); !bytes.Equal(got[1:], b) || got[0] != 'x' {
				t.Errorf("encoded\n%x, want\n%x", got[1:], b)
			}
			octets := append(bytes.Clone(b), "FPDU"...)
			got, need, err := DecodeFrame(octets, MaxPrivate)
			if err != nil || need != 0 || !reflect.DeepEqual(got, c.frame) {
				t.Errorf("decoded %+v, need %d, %v", got, need, err)
			}
			if _ = append(got.Private, "over"...); !bytes.HasSuffix(octets, []byte("FPDU")) {
				t.Error("what follows the frame can be written to through its private data")
			}
		})
	}
}

// With each octet the decoder knows better how many are missing.
func TestDecodeFrameSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range frames {
		b := unhex(t, c.hex)
		for n := range b {
			f, need, err := DecodeFrame(b[:n], MaxPrivate)
			want := FrameLen - n
			if n >= FrameLen {
				want = len(b) - n
			}
			if err != nil || need != want {
				t.Fatalf("%s, %d octets: need %d, %v, want %d", c.name, n, need, err, want)
			}
			if n > keyRole && f.Reply != c.frame.Reply {
				t.Fatalf("%s, %d octets: reply %v", c.name, n, f.Reply)
			}
			if n >= FrameLen && f.Rev != c.frame.Rev {
				t.Fatalf("%s, %d octets: revision %d", c.name, n, f.Rev)
			}
		}
	}
}

func TestDecodeFrameRefusesAWrongKeyAtItsFirstOctet(t *testing.T) {
	t.Parallel()
	for _, key := range []string{requestKey, replyKey} {
		for i := range len(key) {
			b := []byte(key)
			b[i] ^= 0x20
			if _, need, err := DecodeFrame(b[:i], MaxPrivate); err != nil || need != FrameLen-i {
				t.Errorf("before octet %d: need %d, %v", i, need, err)
			}
			if _, _, err := DecodeFrame(b[:i+1], MaxPrivate); !errors.Is(err, ErrKey) {
				t.Errorf("octet %d: %v", i, err)
			}
		}
	}
}

func TestDecodeFrameLimitsPrivateData(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		length, limit int
		want          error
	}{{512, 512, nil}, {513, 512, ErrPrivate}, {65535, 512, ErrPrivate}, {256, 256, nil}, {257, 256, ErrPrivate}} {
		b := unhex(t, hexRequest+"0001")
		b = append(b, byte(c.length>>8), byte(c.length))
		f, need, err := DecodeFrame(b, c.limit)
		if err != c.want || (err == nil && need != c.length) || f.Rev != 1 {
			t.Errorf("%d of %d: need %d, %v, revision %d", c.length, c.limit, need, err, f.Rev)
		}
	}
}

func TestPrefixBits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hex    string
		prefix Prefix
	}{
		{"0000 0000", Prefix{}},
		{"0001 0001", Prefix{IRD: 1, ORD: 1}},
		{"3fff 3ffe", Prefix{IRD: NotNegotiated, ORD: MaxReads}},
		{"8000 0000", Prefix{PeerToPeer: true}},
		{"4000 0000", Prefix{RTR: RTRSend}},
		{"0000 8000", Prefix{RTR: RTRWrite}},
		{"0000 4000", Prefix{RTR: RTRRead}},
		{"ffff ffff", Prefix{IRD: NotNegotiated, ORD: NotNegotiated, PeerToPeer: true, RTR: RTRSend | RTRWrite | RTRRead}},
	} {
		b := unhex(t, c.hex)
		if got := c.prefix.AppendTo(nil); !bytes.Equal(got, b) {
			t.Errorf("%+v: %x, want %x", c.prefix, got, b)
		}
		if got, err := DecodePrefix(append(b, 0xff)); err != nil || got != c.prefix {
			t.Errorf("%s: %+v, %v", c.hex, got, err)
		}
		for n := range PrefixLen {
			if _, err := DecodePrefix(b[:n]); err != ErrPrefix {
				t.Errorf("%d octets: %v", n, err)
			}
		}
	}
}

func TestRTRChoice(t *testing.T) {
	t.Parallel()
	const all = RTRSend | RTRWrite | RTRRead
	for _, c := range []struct{ set, prefer, want RTR }{
		{all, 0, RTRRead}, {all, RTRSend, RTRSend}, {all, RTRWrite, RTRWrite},
		{RTRSend | RTRWrite, 0, RTRWrite}, {RTRSend | RTRWrite, RTRRead, RTRWrite},
		{RTRSend, 0, RTRSend}, {RTRSend, RTRWrite, RTRSend}, {0, RTRRead, 0},
	} {
		if got := c.set.choose(c.prefer); got != c.want {
			t.Errorf("%v, %v preferred: %v, want %v", c.set, c.prefer, got, c.want)
		}
	}
	for set, want := range map[RTR]string{0: "none", RTRSend: "send", RTRWrite | RTRRead: "write+read"} {
		if set.String() != want {
			t.Errorf("%d is %q, want %q", set, set, want)
		}
	}
}

func TestWhatIsBeyondItsLimitsIsOurBug(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"513 octets": func() { (&Frame{Private: make([]byte, 513)}).AppendTo(nil) },
		"IRD 0x4000": func() { (&Prefix{IRD: 0x4000}).AppendTo(nil) },
		"ORD 0x4000": func() { (&Prefix{ORD: 0x4000}).AppendTo(nil) },

		"a ULPDU of 65536 octets": func() { AppendContent(nil, make([]byte, MaxReceiveULPDU+1)) },
		"content without padding": func() { new(MarkerWriter).Append(nil, make([]byte, 21), true) },
	} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.HasPrefix(r, "mpa: ") {
					t.Errorf("%s: panic %q", name, r)
				}
			}()
			f()
		}()
	}
}

func TestValidateNamesTheFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		p     Params
		want  error
		names []string
	}{
		{"zero", Params{}, nil, nil},
		{"all at their limit", Params{Rev: 2, IRD: MaxReads, ORD: MaxReads, RTR: 7, Private: make([]byte, 508), MaxPrivate: 512}, nil, nil},
		{"revision 1 has no prefix", Params{Rev: 1, Private: make([]byte, 512)}, nil, nil},
		{"revision 3", Params{Rev: 3}, ErrRange, []string{"Rev"}},
		{"reads below zero", Params{IRD: -1, MaxIRD: 1, ORD: -1}, ErrRange, []string{"IRD is -1", "ORD is -1"}},
		{"not negotiated", Params{IRD: NotNegotiated, ORD: NotNegotiated}, ErrRange, []string{"IRD", "MaxIRD", "ORD"}},
		{"MaxIRD below IRD", Params{IRD: 4, MaxIRD: 2}, ErrRange, []string{"MaxIRD is 2, not 4"}},
		{"no such RTR", Params{RTR: 8}, ErrRange, []string{"RTR"}},
		{"private data", Params{Private: make([]byte, 509)}, ErrPrivate, []string{"Private is 509 octets, not 0 to 508"}},
		{"private data for siw", Params{Private: make([]byte, 253), MaxPrivate: 256}, ErrPrivate, []string{"Private"}},
		{"limit", Params{MaxPrivate: 513}, ErrRange, []string{"MaxPrivate"}},
		{"limit below the prefix", Params{MaxPrivate: 3}, ErrRange, []string{"MaxPrivate"}},
	} {
		err := c.p.Validate()
		if (c.want == nil) != (err == nil) || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		for _, name := range c.names {
			if err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %q does not say %q", c.name, err, name)
			}
		}
		if _, ierr := NewInitiator(c.p); (ierr == nil) != (err == nil) {
			t.Errorf("%s: NewInitiator %v", c.name, ierr)
		}
		if _, rerr := NewResponder(c.p); (rerr == nil) != (err == nil) {
			t.Errorf("%s: NewResponder %v", c.name, rerr)
		}
	}
}
