package rds

import "github.com/rds-go/rds/rds/datagram"

// OpError is the error of every Node and Socket method; see datagram.OpError.
type OpError = datagram.OpError

// DroppedError is what Close reports when its linger ended with messages that no peer had
// acknowledged; see datagram.DroppedError.
type DroppedError = datagram.DroppedError

// MessageTooLongError is the ErrMessageTooLong of a message that is longer than its peer takes; see
// datagram.MessageTooLongError.
type MessageTooLongError = datagram.MessageTooLongError

// Addr is the address of an RDS socket, a net.Addr; see datagram.Addr.
type Addr = datagram.Addr

// Events is a set of readiness bits, values as in poll(2); see datagram.Events.
type Events = datagram.Events

// Flags of ReadMessage, values as in recvmsg(2); see datagram.Flags.
type Flags = datagram.Flags

// Kind says what a received Message is; see datagram.Kind.
type Kind = datagram.Kind

// Status is the fate of a message, with the values of Linux and two of ours; see
// datagram.Status.
type Status = datagram.Status

// Message is a received datagram, or a buffer for one to be sent; see datagram.Message.
type Message = datagram.Message

// Outgoing is a message to send; see datagram.Outgoing.
type Outgoing = datagram.Outgoing

// Cookie names a region of a socket's memory to peers, who need it, and nothing else, to
// read and write there (RDMA cookie of rds-rdma(7)); see datagram.Cookie.
type Cookie = datagram.Cookie

// MRFlags say how memory is exposed, or how that ends; values as in Linux
// (include/uapi/linux/rds.h, RDS_RDMA_*); see datagram.MRFlags.
type MRFlags = datagram.MRFlags

// Map is memory that a message exposes and offers to its receiver (RDS_CMSG_RDMA_MAP); see
// datagram.Map.
type Map = datagram.Map

// RDMA copies between local memory and a region of the host that a message goes to, before
// the message is delivered (RDS_CMSG_RDMA_ARGS); see datagram.RDMA.
type RDMA = datagram.RDMA

// AtomicKind says what an Atomic does; see datagram.AtomicKind.
type AtomicKind = datagram.AtomicKind

// Atomic changes 8 bytes of a region of the host that a message goes to, in one step,
// before the message is delivered; see datagram.Atomic.
type Atomic = datagram.Atomic

// Memory is memory for regions and operations that any provider can use; see datagram.Memory.
type Memory = datagram.Memory

// Errors a caller may branch on; package datagram documents them.
var (
	ErrWouldBlock          = datagram.ErrWouldBlock
	ErrCongested           = datagram.ErrCongested
	ErrMessageTooLong      = datagram.ErrMessageTooLong
	ErrNotConnected        = datagram.ErrNotConnected
	ErrAddressInUse        = datagram.ErrAddressInUse
	ErrAddressNotAvailable = datagram.ErrAddressNotAvailable
	ErrInvalid             = datagram.ErrInvalid
	ErrNotSupported        = datagram.ErrNotSupported
	ErrNoTransport         = datagram.ErrNoTransport
	ErrBusy                = datagram.ErrBusy
	ErrPermission          = datagram.ErrPermission
	ErrTooMany             = datagram.ErrTooMany
	ErrQuota               = datagram.ErrQuota
	ErrDaemonLost          = datagram.ErrDaemonLost
	ErrNoDaemon            = datagram.ErrNoDaemon
	ErrNoKernel            = datagram.ErrNoKernel
)

// Readiness of a Socket (net/rds/af_rds.c, rds_poll); package datagram documents them.
const (
	PollIn     = datagram.PollIn
	PollOut    = datagram.PollOut
	PollHup    = datagram.PollHup
	PollWrBand = datagram.PollWrBand
)

// Flags; package datagram documents them.
const (
	Peek     = datagram.Peek
	Trunc    = datagram.Trunc
	DontWait = datagram.DontWait
)

// Kinds of Message; package datagram documents them.
const (
	KindData       = datagram.KindData
	KindStatus     = datagram.KindStatus
	KindCongestion = datagram.KindCongestion
)

// Fates of a message; package datagram documents them.
const (
	StatusSuccess     = datagram.StatusSuccess
	StatusRemoteError = datagram.StatusRemoteError
	StatusCanceled    = datagram.StatusCanceled
	StatusDropped     = datagram.StatusDropped
	StatusOtherError  = datagram.StatusOtherError
	StatusRefused     = datagram.StatusRefused
	StatusExpired     = datagram.StatusExpired
	StatusAgain       = datagram.StatusAgain
	StatusTooLong     = datagram.StatusTooLong
)

// Flags of GetMR, GetMRForDest, Map and FreeMR; package datagram documents them.
const (
	MRReadWrite  = datagram.MRReadWrite
	MRInvalidate = datagram.MRInvalidate
	MRUseOnce    = datagram.MRUseOnce
	MRReadOnly   = datagram.MRReadOnly
)

// Kinds of Atomic (RDS_CMSG_ATOMIC_FADD, CSWP, and their masked forms); package datagram
// documents them.
const (
	FetchAdd          = datagram.FetchAdd
	CompareSwap       = datagram.CompareSwap
	MaskedCompareSwap = datagram.MaskedCompareSwap
)
