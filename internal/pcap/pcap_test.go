package pcap

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
)

var (
	client = netip.MustParseAddrPort("10.9.0.2:40001")
	server = netip.MustParseAddrPort("10.9.0.3:7174")
)

func conversation() *Conversation {
	c := New(client, server)
	c.Send(Client, []byte("question"))
	c.Send(Server, bytes.Repeat([]byte("answer"), 1000))
	c.Close(Server)
	return c
}

func TestStreamsAreWhatWasSent(t *testing.T) {
	t.Parallel()
	got, err := Streams(conversation().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if string(got[Client]) != "question" || !bytes.Equal(got[Server], bytes.Repeat([]byte("answer"), 1000)) {
		t.Errorf("%d and %d octets", len(got[Client]), len(got[Server]))
	}
	if !bytes.Equal(conversation().Bytes(), conversation().Bytes()) {
		t.Error("the same conversation gives two files")
	}
}

// Every octet of a packet is covered by a checksum but those of the time and of
// the Ethernet header.
func TestStreamsSeesEveryFlippedBit(t *testing.T) {
	t.Parallel()
	file := conversation().Bytes()
	rng := rand.New(rand.NewPCG(1, 2))
	for at := fileHeader; at < len(file); {
		size := int(file[at+8]) | int(file[at+9])<<8
		for i := 8; i < recordHeader+size; i++ {
			if i >= recordHeader && i < recordHeader+etherLen {
				continue
			}
			bad := bytes.Clone(file)
			bad[at+i] ^= 1 << rng.IntN(8)
			if _, err := Streams(bad); !errors.Is(err, ErrCapture) {
				t.Fatalf("octet %d of the packet at %d: %v", i, at, err)
			}
		}
		at += recordHeader + size
	}
}

func TestStreamsRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	file := conversation().Bytes()
	for _, n := range []int{0, fileHeader - 1, fileHeader + 1, fileHeader + recordHeader, len(file) - 1} {
		if _, err := Streams(file[:n]); !errors.Is(err, ErrCapture) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
}

// TestStreamsWantsEveryPacket takes one out of the middle.
func TestStreamsWantsEveryPacket(t *testing.T) {
	t.Parallel()
	c := New(client, server)
	before := len(c.Bytes())
	c.Send(Client, []byte("lost"))
	c.Send(Client, []byte("kept"))
	lost := recordHeader + etherLen + ipLen + tcpLen + len("lost")
	file := append(bytes.Clone(c.Bytes()[:before]), c.Bytes()[before+lost:]...)
	if _, err := Streams(file); !errors.Is(err, ErrCapture) {
		t.Error(err)
	}
}

func FuzzStreams(f *testing.F) {
	f.Add(conversation().Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := Streams(file); err != nil && !errors.Is(err, ErrCapture) {
			t.Fatal(err)
		}
	})
}
