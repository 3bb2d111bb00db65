//go:build live

package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// userEnv has this binary be an application of another user: it holds a userOrder.
const userEnv = "RDS_TEST_USER"

func init() {
	if text := os.Getenv(userEnv); text != "" {
		beUser(text)
	}
}

// userOrder is what such an application does.
type userOrder struct {
	Path, Do string
	At       netip.Addr // the first address to bind to
	N        int        // how often
}

// touch is an application that touches all memory that it shares with the daemon, and returns
// when the daemon has ended its session.
func touch(path string) error {
	e, err := shakeHands(path)
	if err != nil {
		return err
	}
	for _, area := range [][]byte{e.seg.ReceiveArea(), e.seg.SendArea(), e.seg.MemoryArea()} {
		for i := 0; i < len(area); i += 4096 {
			area[i] = 1
		}
	}
	fmt.Println("touched")
	_ = e.sock.SetDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, e.sock)
	return datagram.ErrDaemonLost
}

// obey does N things, or fewer when one fails.
func (o *userOrder) obey(gone <-chan struct{}) (done int, err error) {
	if o.Do == "touch" {
		return 0, touch(o.Path)
	}
	c, err := client.Dial(o.Path)
	if err != nil {
		return 0, err
	}
	var s *socket.Socket
	if o.Do != "sessions" {
		if s, err = c.Bind(netip.AddrPortFrom(o.At, 0)); err != nil {
			return 0, err
		}
	}
	next := o.At
	for done = 0; done < o.N && err == nil; done++ {
		next = next.Next()
		switch o.Do {
		case "peers":
			far := next.As4()
			far[1] = 99 // none of this host's
			err = s.TrySend(netip.AddrPortFrom(netip.AddrFrom4(far), 9), []byte("x"))
		case "sockets":
			_, err = c.Bind(netip.AddrPortFrom(o.At, 0))
		case "addresses":
			_, err = c.Bind(netip.AddrPortFrom(next, 0))
		case "sessions":
			_, err = client.Dial(o.Path)
		case "info":
			var info info.Report
			if info, err = c.Info(); err == nil {
				mine := len(info.Sessions) == 1 && info.Sessions[0].PID == os.Getpid() && len(info.Counters) == 0 && info.LeftOut != ""
				for _, s := range info.Sockets {
					mine = mine && s.PID == os.Getpid()
				}
				if !mine || len(info.Sockets) != min(done, 1)+1 {
					fmt.Fprintf(os.Stderr, "%+v\n", info)
					err = datagram.ErrInvalid
				}
			}
			if done == 0 && err == nil { // the next report has another socket
				_, err = c.Bind(netip.AddrPortFrom(o.At, 0))
			}
			select {
			case <-gone:
				return done, err
			default:
			}
		case "info of all":
			var info info.Report
			if info, err = c.Info(); err == nil && (len(info.Sockets) != 2 || len(info.Sessions) != 2 || len(info.Counters) == 0 || info.LeftOut != "") {
				fmt.Fprintf(os.Stderr, "%+v\n", info)
				err = datagram.ErrInvalid
			}
		}
	}
	if err != nil {
		done--
	}
	return done, err
}

// otherUser is a process of another user.
type otherUser struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// asUser starts a process.
func asUser(t *testing.T, uid uint32, o userOrder) *otherUser {
	t.Helper()
	text, err := json.Marshal(&o)
	rdstest.Must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), userEnv+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	u := &otherUser{T: t, cmd: cmd}
	u.in, u.out = rdstest.Piped(t, cmd)
	t.Cleanup(func() { u.kill() })
	return u
}

func (u *otherUser) kill() {
	_ = u.cmd.Process.Kill()
	_ = u.cmd.Wait()
}

// line reads what the process says.
func (u *otherUser) line() string {
	u.Helper()
	line, err := u.out.ReadString('\n')
	rdstest.Must(u, err)
	return strings.TrimSpace(line)
}

// done is how often the process did it, and the error of the next time, 0 for none.
func (u *otherUser) done() (n int, errno syscall.Errno) {
	u.Helper()
	for {
		if _, err := fmt.Sscanf(u.line(), "done %d %d", &n, &errno); err == nil {
			return n, errno
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to start processes of other users")
	}
}

// openTo has all users reach a socket.
func openTo(t *testing.T, path string) {
	t.Helper()
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		rdstest.Must(t, os.Chmod(dir, 0o755))
	}
}

// Two users take all they get of everything. A third one has what it needs meanwhile, and
// all is given back when the processes are killed: there is room for one round in the table
// of peers, and more rounds follow.
func TestUsersTakeAllTheyGet(t *testing.T) {
	t.Parallel()
	needRoot(t)
	shares := config.UserShares{Peers: 50, Addresses: 4, Sockets: 20}
	n, svc, path := served(t, newLoopLab(t), config.Node{Linger: -1}, config.Service{Users: shares, MaxSessionsPerUID: 8})
	openTo(t, path)
	n.SkipTo(ipc.MaxPeers - 104)
	setRest(n, 20*time.Millisecond)
	for range 3 {
		takeAll(t, svc, path)
		rdstest.Eventually(t, "the numbers to be given again", func() bool { return rdstest.Report(t, n).Peers.SlotsTold == 0 })
	}
}

// takeAll is one round.
func takeAll(t *testing.T, svc *Service, path string) {
	at := netip.MustParseAddr("10.66.9.1")
	var attackers []*otherUser
	for i, uid := range []uint32{12001, 12002} {
		here := netip.AddrFrom4([4]byte{10, 66, byte(i), 1})
		for _, c := range []struct {
			do    string
			least int
			errno syscall.Errno
		}{{"peers", 50, syscall.EDQUOT}, {"addresses", 3, syscall.EDQUOT}, {"sockets", 14, syscall.EDQUOT}, {"sessions", 4, syscall.EMFILE}} {
			a := asUser(t, uid, userOrder{Path: path, Do: c.do, At: here, N: 1000})
			if n, errno := a.done(); n != c.least || errno != c.errno {
				t.Errorf("user %d has %d %s, then errno %d; want %d, then %d", uid, n, c.do, errno, c.least, c.errno)
			}
			attackers = append(attackers, a)
		}
	}
	for _, u := range svc.Users() {
		if u.Peers != 50 || u.Addresses != 4 || u.Sockets != 20 || u.Sessions != 8 {
			t.Errorf("%+v", u)
		}
	}
	for _, do := range []string{"peers", "sockets", "addresses", "sessions"} {
		third := asUser(t, 12003, userOrder{Path: path, Do: do, At: at, N: 3})
		if n, errno := third.done(); n != 3 || errno != 0 {
			t.Errorf("the third user has %d %s, errno %d", n, do, errno)
		}
		third.kill()
	}
	for _, a := range attackers {
		a.kill()
	}
	rdstest.Eventually(t, "everything to be given back", func() bool {
		peers := 0
		svc.node.EachPeer(func(*node.Peer) { peers++ })
		return len(svc.Users()) == 0 && peers == 0
	})
}

// A user touches all memory that there is for the sessions, which is far more than the share:
// the session ends, and its pages are given back. Another user does not notice.
func TestHogIsEnded(t *testing.T) {
	t.Parallel()
	needRoot(t)
	_, svc, path := served(t, newLoopLab(t), config.Node{Linger: -1}, config.Service{Users: config.UserShares{Memory: 8 << 20}})
	openTo(t, path)
	c := dialed(t, path)
	here := rdstest.NewAddr()
	from, to := bound(t, c, rdstest.AddrOf(here, 5)), bound(t, c, rdstest.AddrOf(here, 6))
	hog := asUser(t, 12001, userOrder{Path: path, Do: "touch", N: 1})
	if line := hog.line(); line != "touched" {
		t.Fatal(line)
	}
	rdstest.MustSend(t, from, to.LocalAddrPort(), make([]byte, 100<<10))
	if m, err := to.Recv(rdstest.Background(t)); err != nil || len(m.Data) != 100<<10 {
		t.Errorf("%d bytes, %v", len(m.Data), err)
	}
	if n, errno := hog.done(); n != 0 || errno != syscall.ECONNRESET {
		t.Errorf("%d times, errno %d", n, errno)
	}
	rdstest.Eventually(t, "the hog to have nothing", func() bool {
		users := svc.Users()
		return len(users) == 1 && users[0].UID == 0
	})
}

// What a process has touched and reserved of shared memory is given back when it is killed,
// while another one of its user goes on.
func TestPagesOfAKilledProcess(t *testing.T) {
	t.Parallel()
	needRoot(t)
	_, svc, path := served(t, newLoopLab(t), config.Node{Linger: -1}, config.Service{SendArena: 1 << 20, ReceiveArena: 1 << 20, MemoryArena: 1 << 20, Users: config.UserShares{Memory: 1 << 40}})
	openTo(t, path)
	reserved := func() (segments int, bytes int64) {
		svc.mu.Lock()
		defer svc.mu.Unlock()
		u := svc.users[12001]
		return len(u.segments), u.reserved
	}
	start := func() *otherUser {
		p := asUser(t, 12001, userOrder{Path: path, Do: "touch", N: 1})
		if line := p.line(); line != "touched" {
			t.Fatal(line)
		}
		return p
	}
	start()
	_, one := reserved()
	touched := svc.Users()[0].Memory
	second := start()
	if n, bytes := reserved(); n != 2 || bytes != 2*one || svc.Users()[0].Memory < touched*3/2 {
		t.Errorf("%d segments of %d bytes, %+v", n, bytes, svc.Users())
	}
	second.kill()
	rdstest.Eventually(t, "the memory to be given back", func() bool {
		n, bytes := reserved()
		return n == 1 && bytes == one && svc.Users()[0].Memory < touched*3/2
	})
}

// Eight loops of client.Client.Info have few reports made, and each gets what is its own.
func TestInfoInLoops(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n, _, path := served(t, newLoopLab(t), config.Node{}, config.Service{})
	openTo(t, path)
	c := dialed(t, path)
	here := rdstest.NewAddr()
	from, to := bound(t, c, rdstest.AddrOf(here, 5)), bound(t, c, rdstest.AddrOf(here, 6))
	var loops []*otherUser
	for i := range 8 {
		loops = append(loops, asUser(t, 12001+uint32(i), userOrder{Path: path, Do: "info", At: netip.AddrFrom4([4]byte{10, 67, byte(i), 1}), N: 1 << 30}))
	}
	reports := func() uint64 { return rdstest.Counter(t, n, "reports_made") }
	rdstest.Eventually(t, "the first reports", func() bool { return reports() > 1 })
	begun, made := time.Now(), reports()
	var took []time.Duration
	for range 1000 {
		start := time.Now()
		rdstest.MustSend(t, from, to.LocalAddrPort(), []byte("ping"))
		m, err := to.Recv(context.Background())
		rdstest.Must(t, err)
		m.Release()
		took = append(took, time.Since(start))
	}
	made = reports() - made
	all := time.Since(begun)
	if most := uint64(all/node.ReportAge) + 2 + uint64(len(loops)); made > most { // each loop's first report may be made for it
		t.Errorf("%d reports in %v, want at most %d", made, all, most)
	}
	slices.Sort(took)
	total := 0
	for _, l := range loops {
		_ = l.in.Close()
		k, errno := l.done()
		if errno != 0 || k == 0 {
			t.Errorf("%d reports, errno %d", k, errno)
		}
		total += k
	}
	if most := len(loops) * (int(time.Since(begun)/node.ReportLeast) + 10); total > most {
		t.Errorf("%d answers, want at most %d", total, most)
	}
	t.Logf("%d reports made in %v, %d answers; round trips beside them: median %v, 99 of 100 %v", made, all, total, took[len(took)/2], took[len(took)*99/100])
}

// beUser does what it is told, says what came of it, and stays until its standard input ends.
func beUser(text string) {
	var o userOrder
	err := json.Unmarshal([]byte(text), &o)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}()
	var done int
	if err == nil {
		done, err = o.obey(gone)
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	fmt.Println("done", done, int(errno))
	<-gone
	os.Exit(0)
}
