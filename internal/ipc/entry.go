package ipc

// Entry is one slot of a ring: four words in the machine's byte order, both
// sides being on one machine.
//
//	 63            32 31       16 15      8 7       0
//	+----------------+-----------+---------+---------+
//	|     socket     |   port    |  flags  |   op    |  0
//	+----------------+-----------+---------+---------+
//	|     length     |             peer              |  1
//	+----------------+-------------------------------+
//	|     block      |            offset             |  2
//	+----------------+-------------------------------+
//	|                     token                      |  3
//	+------------------------------------------------+
type Entry [4]uint64

// Op says what an entry is.
type Op uint8

// Submissions.
const (
	// OpSend: send length bytes at offset of the data ring from socket to port
	// at peer. The bytes may be overwritten once the entry is consumed.
	OpSend Op = 1 + iota
	// OpSendBlock: the same with bytes of the send arena, which are the
	// daemon's until it answers with OpFreed and the same offset.
	OpSendBlock
	// OpReturn: token messages in the receive arena's block at offset are not
	// used any more.
	OpReturn
	// OpExpose: make a region of socket, of length bytes at offset of the memory, with the
	// flags in block. The answer is OpExposed with the same token.
	OpExpose
	// OpConceal: end socket's region with the cookie in token. There is no answer.
	OpConceal
)

// Completions.
const (
	// OpMessage: length bytes at offset of the receive arena, in block, have
	// arrived at socket from port at peer, on the path in flags.
	OpMessage Op = 64 + iota
	// OpFreed: the bytes at offset of the send arena are the application's.
	OpFreed
	// OpFate: the fate of socket's message with token is the status in length.
	OpFate
	// OpRoom: messages of socket were settled, and it wanted to know.
	OpRoom
	// OpSpace: submissions were consumed, and the application wanted to know.
	OpSpace
	// OpMaps: a congestion map has arrived, and the application wanted to know.
	OpMaps
	// OpDone: socket's message with the operation token has ended with the status
	// in length. Its memory is the application's, and the result, what the word of
	// an atomic operation was, in block and offset.
	OpDone
	// OpRetired: socket's use-once region with the key in offset has ended.
	OpRetired
	// OpExposed answers an OpExpose of socket: the errno is in length, and if that is 0 the
	// region's cookie in block and offset.
	OpExposed
)

// OpWork: the completion queue socket, an object of XRC, has completions, and the application
// wanted to know.
const OpWork Op = 80

// MaxExposing is how many OpExpose an application may have that are not answered.
const MaxExposing = 1024

// FlagNotify on a submission asks for its OpFate.
const FlagNotify = 1

// FlagAbout on a submission: the data ring holds an About at block. If that has
// an operation, OpDone and not OpFate tells its end, in any case.
const FlagAbout = 2

// FlagTold on OpDone: the application shall be told.
const FlagTold = 1

// FlagDest on OpMessage: the sender offers a region, whose cookie is the token.
// The path is in the lower bits.
const FlagDest = 0x80

// FlagSpilled on OpMessage: it was spilled before. The path is in the lower bits.
const FlagSpilled = 0x40

// NoBlock is the block of a message without payload.
const NoBlock = 1<<32 - 1

// MakeEntry packs an entry.
func MakeEntry(op Op, flags uint8, port uint16, socket, peer, length, offset, block uint32, token uint64) Entry {
	return Entry{
		uint64(op) | uint64(flags)<<8 | uint64(port)<<16 | uint64(socket)<<32,
		uint64(peer) | uint64(length)<<32,
		uint64(offset) | uint64(block)<<32,
		token,
	}
}

// Fields of an entry.
func (e *Entry) Op() Op         { return Op(e[0]) }
func (e *Entry) Flags() uint8   { return uint8(e[0] >> 8) }
func (e *Entry) Port() uint16   { return uint16(e[0] >> 16) }
func (e *Entry) Socket() uint32 { return uint32(e[0] >> 32) }
func (e *Entry) Peer() uint32   { return uint32(e[1]) }
func (e *Entry) Length() uint32 { return uint32(e[1] >> 32) }
func (e *Entry) Offset() uint32 { return uint32(e[2]) }
func (e *Entry) Block() uint32  { return uint32(e[2] >> 32) }
func (e *Entry) Token() uint64  { return e[3] }
func (e *Entry) Result() uint64 { return e[2] } // OpDone and OpExposed: offset and block in one word
