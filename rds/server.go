package rds

// server is a service that lends the node's sockets to other processes, as the node knows
// it. A node that nobody serves has noServer. The node calls show, hide and retire under
// Node.mu, and what shows a peer's state under the lock of the peer.
type server interface {
	// show and hide put a peer into the table of peers, and take it out: it has ended, and
	// nobody was told of its number. retire takes out one whose number was told.
	show(p *peer)
	hide(p *peer)
	retire(number uint32)
	// The rest of a peer's entry: whether there are links, or may be; the ports that take no
	// messages; what the links carry; which transport serves the peer.
	showDown(p *peer)
	showMap(p *peer)
	showCarriage(p *peer)
	showServer(p *peer)
	// mapNews tells that a congestion map has arrived, and admissionNews that the allow-list
	// has changed.
	mapNews()
	admissionNews()
	// forget has sessions forget the numbers in ended, and takes those out that they still
	// know.
	forget(ended *slotSet)

	// describe adds sessions and users to a report, and tells whose applications use which
	// peers. waits adds what applications as a whole wait for.
	describe(info *Info) (users map[*peer][]uint32)
	waits(y *waitReport)
}

// noServer is the server of a node that has none.
type noServer struct{}

var _ server = noServer{}

func (noServer) show(*peer)                               {}
func (noServer) hide(*peer)                               {}
func (noServer) retire(uint32)                            {}
func (noServer) showDown(*peer)                           {}
func (noServer) showMap(*peer)                            {}
func (noServer) showCarriage(*peer)                       {}
func (noServer) showServer(*peer)                         {}
func (noServer) mapNews()                                 {}
func (noServer) admissionNews()                           {}
func (noServer) forget(*slotSet)                          {}
func (noServer) describe(*Info) (none map[*peer][]uint32) { return none }
func (noServer) waits(*waitReport)                        {}

// serverBox is a server in an atomic pointer.
type serverBox struct{ server }

// server is who serves the node.
func (n *Node) server() server {
	if s := n.served.Load(); s != nil {
		return s.server
	}
	return noServer{}
}

// serve gives the node a server. It is false if the node ends, or has one.
func (n *Node) serve(s server) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.ending && n.served.CompareAndSwap(nil, &serverBox{s})
}

// unserve follows the end of the server.
func (n *Node) unserve() { n.served.Store(nil) }
