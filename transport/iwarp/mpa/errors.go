package mpa

import "syscall"

// Code is an error code of MPA, sent to the peer in a Terminate message of
// layer 2 and error type 0 (RFC 5044 section 8, RFC 6581 section 8). Zero is
// none: the connection is closed without words.
type Code uint8

// The codes.
const (
	CodeClosed     Code = 1 // TCP connection closed, terminated or lost
	CodeCRC        Code = 2 // CRC mismatch
	CodeMarker     Code = 3 // marker and ULPDU_Length disagree
	CodeFrame      Code = 4 // invalid Request or Reply
	CodeLocal      Code = 5 // local catastrophic error
	CodeIRD        Code = 6 // insufficient IRD
	CodeNoMatchRTR Code = 7 // no matching RTR option
)

// Error is a failure of MPA. The package's sentinels are of this type and are
// compared with errors.Is, which also finds the errno that a socket call
// reports for it.
type Error struct {
	// Code is that of the Terminate message that is due before the
	// connection is closed, zero if none is.
	Code  Code
	errno syscall.Errno
	text  string
}

// Error describes the failure.
func (e *Error) Error() string { return "mpa: " + e.text }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.errno }

// Failures of the set-up.
var (
	ErrKey       = &Error{0, syscall.EPROTO, "the peer does not speak MPA"}
	ErrRole      = &Error{0, syscall.EPROTO, "both sides have the same role"}
	ErrRevision  = &Error{0, syscall.EPROTO, "the peer's revision is not supported"}
	ErrPrivate   = &Error{0, syscall.EMSGSIZE, "too much private data"}
	ErrPrefix    = &Error{0, syscall.EPROTO, "private data is shorter than the enhanced prefix"}
	ErrEnhanced  = &Error{0, syscall.EPROTO, "Reply and Request differ in being enhanced"}
	ErrPipelined = &Error{0, syscall.EPROTO, "the initiator sends before the Reply"}
	ErrMarkers   = &Error{0, syscall.ECONNREFUSED, "the peer asks for markers"}
	ErrSeal      = &Error{0, syscall.EBADMSG, "the peer's set-up frame has changed on its way"}
	ErrTurn      = &Error{0, syscall.EINVAL, "called out of turn"}
	ErrRange     = &Error{0, syscall.EINVAL, "parameter out of range"}
	// ErrDepth is a responder's, which says it in a rejecting Reply.
	ErrDepth = &Error{0, syscall.ENOBUFS, "the initiator wants more RDMA Reads than can be held"}
	// ErrIRD and ErrRTR are an initiator's, which has had the last word.
	ErrIRD = &Error{CodeIRD, syscall.ENOBUFS, "the responder wants more RDMA Reads than can be held"}
	ErrRTR = &Error{CodeNoMatchRTR, syscall.EPROTO, "no kind of RTR in common"}
	// ErrRejected is what errors.Is finds in a RejectedError.
	ErrRejected = &Error{0, syscall.ECONNREFUSED, "rejected by the peer"}
)

// Failures of the stream of FPDUs.
var (
	ErrCRC    = &Error{CodeCRC, syscall.EBADMSG, "CRC mismatch"}
	ErrMarker = &Error{CodeMarker, syscall.EBADMSG, "a marker does not point to the start of its FPDU"}
	ErrLength = &Error{CodeMarker, syscall.EBADMSG, "a ULPDU is shorter than its DDP header"}
)
