package rds

import "github.com/rds-go/rds/rds/info"

// UserInfo is what the applications of one user have of the user's shares; see info.User.
type UserInfo = info.User

// MemoryInfo is what a node's table of memory regions has and did: mr.Stats of the
// transport that carries RDMA; see info.Memory.
type MemoryInfo = info.Memory

// MemoryPoolInfo is one class of regions; see info.MemoryPool.
type MemoryPoolInfo = info.MemoryPool

// BadKeysInfo counts requests that were refused for one reason; see info.BadKeys.
type BadKeysInfo = info.BadKeys

// AdmissionInfo is a node's allow-list, and what it has kept out; see info.Admission.
type AdmissionInfo = info.Admission

// KernelFilterInfo is the filter in the kernel that turns strangers away before TCP answers
// them; see info.KernelFilter.
type KernelFilterInfo = info.KernelFilter

// RejectedInfo counts the connections that were reset of one neighbourhood; see info.Rejected.
type RejectedInfo = info.Rejected

// PathTCP is what the kernel knows of the TCP connection of a path (TCP_INFO); see
// info.PathTCP.
type PathTCP = info.PathTCP

// Info is a snapshot of a node, what rds-info shows of a kernel; see info.Report.
type Info = info.Report

// InfoPart names a part of Info that only reports have that are asked for it, because the
// part may be large; see info.InfoPart.
type InfoPart = info.InfoPart

// PeersInfo is how many peers a node knows; see info.Peers.
type PeersInfo = info.Peers

// SessionInfo describes an application attached to a Service; see info.Session.
type SessionInfo = info.Session

// SocketInfo is one line of rds-info -k; see info.Socket.
type SocketInfo = info.Socket

// ConnectionInfo is one line of rds-info -n, with its paths; see info.Connection.
type ConnectionInfo = info.Connection

// QueuedInfo is one line of rds-info -s, -t or -r; see info.Queued.
type QueuedInfo = info.Queued

// TCPInfo is one line of rds-info -T: a connection of RDS over TCP; see info.TCP.
type TCPInfo = info.TCP

// XRCInfo is one connection of RDS on XRC, what rds-info -I shows of InfiniBand; see info.XRC.
type XRCInfo = info.XRC

// WaitInfo says that messages or senders wait: who, for what, and since when; see info.Wait.
type WaitInfo = info.Wait

// InfoObjects is Info.Objects: XRC sessions, domains, targets, initiators, shared receive
// queues and registrations; see info.InfoObjects.
const InfoObjects = info.InfoObjects

// Names of providers, for Open and the environment variable RDS_PROVIDER; package info
// documents them.
const (
	ProviderNode   = info.ProviderNode
	ProviderDaemon = info.ProviderDaemon
	ProviderKernel = info.ProviderKernel
)

// Causes of a WaitInfo, as its Cause has them; package info documents them.
const (
	CauseUnreachable = info.CauseUnreachable
	CauseHandshake   = info.CauseHandshake
	CauseCongested   = info.CauseCongested
	CauseHeld        = info.CauseHeld
	CauseSendBuffer  = info.CauseSendBuffer
	CauseBudget      = info.CauseBudget
	CauseMemory      = info.CauseMemory
	CauseFates       = info.CauseFates
	CauseWindow      = info.CauseWindow
	CauseReceiver    = info.CauseReceiver
	CausePaused      = info.CausePaused
	CauseRefused     = info.CauseRefused
	CauseFallenBack  = info.CauseFallenBack
)
