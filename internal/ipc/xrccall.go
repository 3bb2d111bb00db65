package ipc

import (
	"encoding/json"
	"net/netip"
)

// XRCCall is a call about objects of XRC. An object has a number in its session, which the call
// that makes it returns; what other calls name is of these. Queues lie in the memory area, at
// Offset: see Queue.
type XRCCall struct {
	Op      string          `json:"op"`
	Object  uint32          `json:"object,omitempty"` // what the call is about
	Domain  uint32          `json:"domain,omitempty"`
	PD      uint32          `json:"pd,omitempty"`
	CQ      uint32          `json:"cq,omitempty"`
	SRQ     uint32          `json:"srq,omitempty"`
	Target  uint32          `json:"target,omitempty"` // number of a target
	Service uint64          `json:"service,omitempty"`
	Entries int             `json:"entries,omitempty"`
	Limit   int             `json:"limit,omitempty"`
	Reads   int             `json:"reads,omitempty"`
	MTU     int             `json:"mtu,omitempty"`
	Offset  uint32          `json:"offset,omitempty"`
	Length  uint32          `json:"length,omitempty"`
	Access  uint32          `json:"access,omitempty"` // mr.Rights
	Flags   int             `json:"flags,omitempty"`  // os.O_CREATE and os.O_EXCL, or an SRQMask
	Local   netip.Addr      `json:"local,omitzero"`
	Remote  netip.Addr      `json:"remote,omitzero"`
	Hosts   []netip.Prefix  `json:"hosts,omitempty"`
	Mask    uint32          `json:"mask,omitempty"` // fields of Attr that count
	Attr    json.RawMessage `json:"attr,omitempty"` // objects.Attr
	Serial  uint64          `json:"serial,omitempty"`
}

// Calls about objects of XRC. The end of a session ends its objects.
const (
	XRCPosts      = "posts"       // Offset, Entries: the queue of posts, once, before all others
	XRCAllocPD    = "alloc_pd"    // a protection domain
	XRCRegister   = "reg_mr"      // PD, Offset, Length, Access: a region of the memory area; Number is its key
	XRCCreateCQ   = "create_cq"   // Offset, Entries: a completion queue
	XRCOpenDomain = "open_domain" // Flags, and a file's descriptor unless it is to be private
	XRCCreateSRQ  = "create_srq"  // Domain, PD, CQ, Offset, Entries, Limit: a shared receive queue
	XRCModifySRQ  = "modify_srq"  // Object, Limit: arms the limit
	XRCQuerySRQ   = "query_srq"   // Object; Posted and Limit
	XRCAdvertise  = "advertise"   // Service, Domain, SRQ, Hosts, Access: a service
	XRCConnect    = "connect"     // PD, CQ, Local, Remote, Service, Entries, Offset, Reads, MTU: an initiator that is connected
	XRCJoin       = "join"        // Object, Service: one more service behind the initiator's target
	XRCResolve    = "resolve"     // Local, Remote, Service: the queue behind a service
	XRCDestroy    = "destroy"     // Object: ends it, whatever it is
	XRCClose      = "close"       // ends all objects

	XRCCreateTarget = "create_target" // Domain: a target, with this session registered
	XRCOpenTarget   = "open_target"   // Domain, Target: a handle of a target
	XRCRegisterWith = "register"      // Domain, Target
	XRCUnregister   = "unregister"    // Domain, Target
	XRCQueryTarget  = "query_target"  // Domain, Target
	XRCModifyTarget = "modify_target" // Domain, Target, Mask, Attr
	XRCEvent        = "event"         // waits for an event, which Ack acknowledges
	XRCAck          = "ack"           // Serial
)

// XRCReply is what such a call returns.
type XRCReply struct {
	Object     uint32          `json:"object,omitempty"`
	Cause      string          `json:"cause,omitempty"`      // xrc.Info.Cause
	Generation uint32          `json:"generation,omitempty"` // of the number
	Number     uint32          `json:"number,omitempty"`     // by which peers or events name the object, or a region's key
	Target     uint32          `json:"target,omitempty"`     // connect: the target at the other end
	SRQ        uint32          `json:"srq,omitempty"`        // number of the queue behind a service
	Tag        uint64          `json:"tag,omitempty"`        // of a domain
	Posted     int             `json:"posted,omitempty"`
	Limit      int             `json:"limit,omitempty"`
	Reads      int             `json:"reads,omitempty"`
	Info       json.RawMessage `json:"info,omitempty"`  // xrc.Info
	Event      json.RawMessage `json:"event,omitempty"` // objects.Event
	Serial     uint64          `json:"serial,omitempty"`
}
