package xctl

import (
	"fmt"
	"syscall"
)

// ErrVersion: the answer is of a later version than the offer (EPROTO). The two
// sides would disagree about what the connection carries, so it must not be used.
var ErrVersion = fmt.Errorf("xctl: the answer has a version that was not offered: %w", syscall.EPROTO)

// Agreed is what both sides of a connection know of each other.
type Agreed struct {
	// Extended is false towards a plain iWARP peer. Nothing of this package may
	// then be sent to it, and all it sends is for queues 0 to 3.
	Extended bool
	// Caps is what both sides do. CapInitiator: this side may send to shared
	// receive queues; CapTarget: the peer may.
	Caps Caps
	// Peer is the peer's block. Its limits bind what this side sends.
	Peer Block
}

// agree is what holds between two sides that sent these blocks.
func agree(own, peer *Block) Agreed {
	safe := peer.tolerant()
	both := (own.Caps & safe.Caps.mirrored()).consistent()
	return Agreed{Extended: true, Caps: both, Peer: safe}
}

// MaxULPDU is the longest ULPDU to send to the peer if that is more than fits a
// TCP segment, else 0.
func (a *Agreed) MaxULPDU() int {
	if !a.Caps.Has(CapBigFPDU) {
		return 0
	}
	return int(a.Peer.MaxULPDU)
}

// Offer appends the private data of an initiator's Request: the block, then the
// upper layer's. It fails with ErrBlock or ErrPrivate.
func (b *Block) Offer(dst, upper []byte) ([]byte, error) {
	if err := b.Validate(); err != nil {
		return dst, err
	}
	if len(upper) > MaxPrivate {
		return dst, ErrPrivate
	}
	return append(b.AppendTo(dst), upper...), nil
}

// Settle reads the private data of the Reply to own, an offer. What remains is
// the upper layer's. A Reply without a block is a plain peer's.
func (b *Block) Settle(private []byte) (a Agreed, upper []byte, err error) {
	var answer Block
	version, n, ok := answer.decode(private)
	switch {
	case !ok:
		return Agreed{}, private, nil
	case version > blockVersion:
		return Agreed{}, private, ErrVersion
	}
	return agree(b, &answer), private[n:], nil
}

// Upper returns what of the private data of a Request or Reply is the upper layer's:
// what follows the block, all of it where there is none.
func Upper(private []byte) []byte {
	var b Block
	if _, n, ok := b.decode(private); ok {
		return private[n:]
	}
	return private
}

// Answer is a responder's side of the negotiation.
type Answer struct {
	Agreed
	block Block // the block to send
}

// Negotiate reads the private data of a Request. What remains is the upper
// layer's, all of it if the peer offers nothing. own says what this side can.
//
// Roles are crossed: whoever wants to send meets one who takes messages. Of the
// other capabilities those remain that both have. An offer of a later version is
// answered with this one.
func (b *Block) Negotiate(private []byte) (ans Answer, upper []byte, err error) {
	if err := b.Validate(); err != nil {
		return Answer{}, private, err
	}
	var offer Block
	_, n, ok := offer.decode(private)
	if !ok {
		return Answer{}, private, nil
	}
	ans = Answer{Agreed: agree(b, &offer), block: *b}
	ans.block.Caps = ans.Caps
	return ans, private[n:], nil
}

// AppendTo appends the private data of the Reply: the block, if one was offered,
// then the upper layer's. It fails with ErrPrivate.
func (a *Answer) AppendTo(dst, upper []byte) ([]byte, error) {
	if !a.Extended {
		return append(dst, upper...), nil
	}
	if len(upper) > MaxPrivate {
		return dst, ErrPrivate
	}
	return append(a.block.AppendTo(dst), upper...), nil
}
