package xrc

// another is one more process at the address of a host, which it is not.
func (h *host) another() *Transport { return newTransport(h.n, Options{Port: channelPort}) }

// theLink is the link in use of a path.
func (h *host) theLink(i int) *link {
	h.Transport.mu.Lock()
	defer h.Transport.mu.Unlock()
	for l := range h.links {
		if l.index == i {
			return l
		}
	}
	h.n.Helper()
	h.n.Fatal("no link")
	return nil
}

func (h *host) pathOf(remote *host, i int) *path {
	h.Transport.mu.Lock()
	defer h.Transport.mu.Unlock()
	return h.peers[hosts{h.addr, remote.addr}].paths[i]
}
