package conn

import "fmt"

// Status says what became of a message. 0 to 4 are those of Linux
// (include/uapi/linux/rds.h, RDS_RDMA_*); ours begin at 64.
type Status int32

// Fates of a message.
const (
	// Success: the message is in the receiving socket's queue, and its operation is
	// done. Over TCP, as in Linux, it says only that the peer's kernel has acknowledged the
	// message: the peer may end before it reads it, or drop it.
	Success Status = 0
	// RemoteError: the peer has refused the message's operation (key, bounds, rights),
	// or has restarted since the operation was asked for.
	RemoteError Status = 1
	// Canceled: the message was canceled, or its socket closed, before it was
	// acknowledged. It may have been delivered all the same.
	Canceled Status = 2
	// Dropped: it is not known if the message was delivered, at most once. It was lost
	// with a connection, or with the peer's last generation, and is not repeated.
	Dropped Status = 3
	// OtherError: the message was not delivered, and its operation did not happen.
	OtherError Status = 4
	// Refused: no socket is bound to the destination port, and the message was not
	// delivered. Its operation is done. Links that cannot tell end such messages with
	// Success: TCP, and XRC with a peer of an earlier version.
	Refused Status = 64
	// Expired: the message was not picked for transmission within its time limit, and
	// never will be. Its operation did not happen.
	Expired Status = 65
	// Again: the operation did not begin, because the peer has refused others of its
	// socket, and the message was not delivered. It may be sent again a little later.
	Again Status = 66
	// TooLong: the message is longer than the peer takes, and was not delivered. Its operation did
	// not happen, unless the peer has found out by itself.
	TooLong Status = 67
)

var statusNames = map[Status]string{
	Success: "success", RemoteError: "remote error", Canceled: "canceled", Dropped: "dropped", OtherError: "other error",
	Refused: "refused", Expired: "expired", Again: "again", TooLong: "too long",
}

func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return fmt.Sprintf("status(%d)", int32(s))
}
