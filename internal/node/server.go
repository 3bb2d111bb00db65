package node

import "github.com/rds-go/rds/rds/info"

// Server is a service that lends the node's sockets to other processes, as the node knows
// it. A node that nobody serves has noServer. The node calls Show, Hide and Retire under
// Node.Mu, and what shows a peer's state under the lock of the peer.
type Server interface {
	// Show and Hide put a peer into the table of peers, and take it out: it has ended, and
	// nobody was told of its number. Retire takes out one whose number was told.
	Show(p *Peer)
	Hide(p *Peer)
	Retire(number uint32)
	// The rest of a peer's entry: whether there are links, or may be; the ports that take no
	// messages; how long messages may be; what the links carry; which transport serves the peer.
	ShowDown(p *Peer)
	ShowMap(p *Peer)
	ShowLongest(p *Peer)
	ShowCarriage(p *Peer)
	ShowServer(p *Peer)
	// MapNews tells that a congestion map has arrived, and AdmissionNews that the allow-list
	// has changed.
	MapNews()
	AdmissionNews()
	// TakeFrees ends the regions that applications have submitted the end of.
	TakeFrees()
	// Forget has sessions forget the numbers in ended, and takes those out that they still
	// know.
	Forget(ended *SlotSet)

	// Describe adds sessions and users to a report, and tells whose applications use which
	// peers. Waits adds what applications as a whole wait for.
	Describe(info *info.Report) (users map[*Peer][]uint32)
	Waits(y *WaitReport)
}

// noServer is the server of a node that has none.
type noServer struct{}

var _ Server = noServer{}

func (noServer) Show(*Peer)                                      {}
func (noServer) Hide(*Peer)                                      {}
func (noServer) Retire(uint32)                                   {}
func (noServer) ShowDown(*Peer)                                  {}
func (noServer) ShowMap(*Peer)                                   {}
func (noServer) ShowLongest(*Peer)                               {}
func (noServer) ShowCarriage(*Peer)                              {}
func (noServer) ShowServer(*Peer)                                {}
func (noServer) MapNews()                                        {}
func (noServer) AdmissionNews()                                  {}
func (noServer) TakeFrees()                                      {}
func (noServer) Forget(*SlotSet)                                 {}
func (noServer) Describe(*info.Report) (none map[*Peer][]uint32) { return none }
func (noServer) Waits(*WaitReport)                               {}

// serverBox is a server in an atomic pointer.
type serverBox struct{ Server }

// Server is who serves the node.
func (n *Node) Server() Server {
	if s := n.served.Load(); s != nil {
		return s.Server
	}
	return noServer{}
}

// Serve gives the node a server. It is false if the node ends, or has one.
func (n *Node) Serve(s Server) bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return !n.ending && n.served.CompareAndSwap(nil, &serverBox{s})
}

// Unserve follows the end of the server.
func (n *Node) Unserve() { n.served.Store(nil) }
