package control

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/rds-go/rds/internal/ipc"
)

// clients are the connections of a server. A connection waits until its request has come
// whole and it has a place among those that are served, which it keeps to its end.
//
// A client that sends half a request, or does not read its answer, uses up what its own
// user may have: at most maxOfUser requests of a user are served at a time, and of too many
// connections that wait the oldest of the user who has most of them is closed. Places
// beyond maxClients are for root and for the server's own user.
type clients struct {
	mu      sync.Mutex    // guards the fields below
	waiting []*connection // connections that are not served yet, oldest first
	serving map[int]int
	places  int // connections that are served
}

// connection is that of one client.
type connection struct {
	net.Conn
	all  *clients
	uid  int           // user at the other end; unknownUser if the system does not tell
	turn chan struct{} // closed when the request is served

	asked, served, ended bool // guarded by clients.mu
}

// unknownUser stands for the user of a connection that is no Unix socket.
const unknownUser = -1

// userOf is who is at the other end of a connection.
func userOf(c net.Conn) int {
	if sc, ok := c.(syscall.Conn); ok {
		if cred, err := ipc.PeerOf(sc); err == nil {
			return int(cred.UID)
		}
	}
	return unknownUser
}

// enter lists a connection.
func (all *clients) enter(c net.Conn) *connection {
	k := &connection{Conn: c, all: all, uid: userOf(c), turn: make(chan struct{})}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.waiting) >= maxWaiting {
		count := make(map[int]int)
		most := all.waiting[0].uid
		for _, w := range all.waiting {
			if count[w.uid]++; count[w.uid] > count[most] {
				most = w.uid
			}
		}
		i := slices.IndexFunc(all.waiting, func(w *connection) bool { return w.uid == most })
		_ = all.waiting[i].Conn.Close() // the server finds the end, and closes the client
		all.waiting = slices.Delete(all.waiting, i, i+1)
	}
	all.waiting = append(all.waiting, k)
	return k
}

// begin waits until the client, whose request has come, has a place. It is false if ctx
// ends before.
func (k *connection) begin(ctx context.Context) bool {
	all := k.all
	all.mu.Lock()
	k.asked = true
	all.grantLocked()
	all.mu.Unlock()
	select {
	case <-k.turn:
		return true
	case <-ctx.Done():
		return false
	}
}

// grantLocked gives places to those whose request has come, the oldest first.
func (all *clients) grantLocked() {
	all.waiting = slices.DeleteFunc(all.waiting, func(k *connection) bool {
		if !k.asked || k.ended || !all.roomLocked(k.uid) {
			return false
		}
		k.served = true
		all.places++
		all.serving[k.uid]++
		close(k.turn)
		return true
	})
}

// roomLocked tells whether there is a place for a user.
func (all *clients) roomLocked(uid int) bool {
	if uid == 0 || uid == os.Geteuid() {
		return all.places < maxClients+maxReserved
	}
	return all.places < maxClients && all.serving[uid] < maxOfUser
}

// Close ends the connection and gives its place to another one.
func (k *connection) Close() error {
	err := k.Conn.Close()
	all := k.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if k.ended {
		return err
	}
	k.ended = true
	if i := slices.Index(all.waiting, k); i >= 0 {
		all.waiting = slices.Delete(all.waiting, i, i+1)
	}
	if k.served {
		all.places--
		if all.serving[k.uid]--; all.serving[k.uid] == 0 {
			delete(all.serving, k.uid)
		}
	}
	all.grantLocked()
	return err
}

// listing is a listener whose connections are listed.
type listing struct {
	net.Listener
	all *clients
}

func (l listing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.all.enter(c), nil
}

// clientKey is the key of a request's client in its context.
type clientKey struct{}

func withClient(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}
