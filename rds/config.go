package rds

import "github.com/rds-go/rds/rds/config"

// Admission says which peers a node has connections with; see config.Admission.
type Admission = config.Admission

// ClientConfig is what a Client is told once; see config.Client.
type ClientConfig = config.Client

// Config is what a Node is told once; see config.Node.
type Config = config.Node

// TCPConfig tunes the TCP connections of a Node; see config.TCP.
type TCPConfig = config.TCP

// ServiceConfig is what a Service is told once; see Service.Reload for what may change
// later; see config.Service.
type ServiceConfig = config.Service

// PortRule reserves the ports First to Last for some users and groups; see config.PortRule.
type PortRule = config.PortRule

// ServiceRule reserves the service ids First to Last for some users and groups; see config.ServiceRule.
type ServiceRule = config.ServiceRule

// SharedListeners has a node listen on many addresses with one socket for each port and
// family of addresses, where something else, such as a program in the kernel, brings the
// connections to that socket; see config.SharedListeners.
type SharedListeners = config.SharedListeners

// UserShares bound what all applications of one user may have together; see config.UserShares.
type UserShares = config.UserShares

// Wire names a wire transport; see config.Wire.
type Wire = config.Wire

// CRC says which connections of RDS on XRC have a CRC; see config.CRC.
type CRC = config.CRC

// XRCConfig tunes RDS on XRC; see config.XRC.
type XRCConfig = config.XRC

// Defaults of a Config; package config documents them.
const (
	DefaultPort           = config.DefaultPort
	DefaultBuffer         = config.DefaultBuffer
	DefaultReceiveOverrun = config.DefaultReceiveOverrun
	DefaultReceiveStall   = config.DefaultReceiveStall
	DefaultPeerBudget     = config.DefaultPeerBudget
	DefaultLinger         = config.DefaultLinger
	DefaultGrace          = config.DefaultGrace
	MaxMessage            = config.MaxMessage
)

// ServiceBurst is TCPConfig.Burst for a node that serves applications; see
// config.ServiceBurst.
const ServiceBurst = config.ServiceBurst

// Defaults of a ServiceConfig; package config documents them.
const (
	DefaultMaxSessions    = config.DefaultMaxSessions
	DefaultSessionsOfUID  = config.DefaultSessionsOfUID
	DefaultMaxSockets     = config.DefaultMaxSockets
	DefaultSendBudget     = config.DefaultSendBudget
	DefaultSendArena      = config.DefaultSendArena
	DefaultReceiveArena   = config.DefaultReceiveArena
	DefaultMemoryArena    = config.DefaultMemoryArena
	DefaultReceiveBacklog = config.DefaultReceiveBacklog
	DefaultSocketMode     = config.DefaultSocketMode
)

// Defaults of UserShares; package config documents them.
const (
	DefaultUserPeers     = config.DefaultUserPeers
	DefaultUserAddresses = config.DefaultUserAddresses
	DefaultUserSockets   = config.DefaultUserSockets
)

// The wire transports; package config documents them.
const (
	WireAuto = config.WireAuto
	WireXRC  = config.WireXRC
	WireTCP  = config.WireTCP
)

// Values of CRC; package config documents them.
const (
	CRCAuto = config.CRCAuto
	CRCOn   = config.CRCOn
	CRCOff  = config.CRCOff
)

// DefaultXRCPort is the TCP port of RDS on XRC; see config.DefaultXRCPort.
const DefaultXRCPort = config.DefaultXRCPort
