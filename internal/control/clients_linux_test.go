//go:build live

package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// attacker runs half as a process of a user.
func attacker(t *testing.T, uid uint32, path, text string, connections int, read bool) {
	t.Helper()
	order, err := json.Marshal(map[string]any{"Path": path, "Text": text, "Connections": connections, "Read": read})
	must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), halfEnv+"="+string(order))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "held") {
		t.Fatalf("attacker: %q, %v", line, err)
	}
}

// openSocket is a server's socket that every user may connect to.
func openSocket(t *testing.T, snapshot func() (any, error)) string {
	t.Helper()
	path := socket(t)
	dir := path[:strings.LastIndexByte(path, '/')]
	must(t, os.Chmod(dir, 0o755))
	s, err := Config{Path: path, Mode: 0o666, readTimeout: 5 * time.Minute}.Serve(snapshot)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return path
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to start processes of other users")
	}
}

// Half a request, or a connection without one, keeps nobody from an answer: neither one
// whose owner is the same user nor one of others, and however many there are.
func TestHalfRequestsHoldUpNobody(t *testing.T) {
	for _, text := range []string{"", "G", "GET /v1/info HTTP/1.1\r\nHost: x\r\nX: "} {
		for _, n := range []int{40, maxWaiting + 40} {
			t.Run(fmt.Sprintf("%d times %q", n, text), func(t *testing.T) {
				t.Parallel()
				path := openSocket(t, constant)
				uid := uint32(os.Getuid())
				users := []uint32{uid}
				if uid == 0 {
					users = []uint32{0, 12001}
				}
				for _, u := range users {
					attacker(t, u, path, text, n, false)
				}
				var got report
				if err := Fetch(limit(t), path, &got); err != nil || got.Count != 7 {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
	}
}

// A user who asks again and again and reads no answer uses up the places of that user. Root
// has places when others have all of theirs.
func TestUnreadAnswersHoldUpTheirUserOnly(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const ask = "GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n"
	var made atomic.Int32
	long := strings.Repeat("x", 4<<20) // more than a socket holds
	path := openSocket(t, func() (any, error) { made.Add(1); return long, nil })
	attacker(t, 12001, path, ask, 40, false)
	attacker(t, 12002, path, ask, 1, true)
	attacker(t, 12003, path, ask, 40, false)
	for ctx := limit(t); made.Load() < 2*maxOfUser+1; <-time.After(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d requests were served, want %d of each attacker", made.Load(), maxOfUser)
		}
	}
	var got string
	if err := Fetch(limit(t), path, &got); err != nil || len(got) != len(long) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := made.Load(); n > 2*maxOfUser+2 {
		t.Errorf("%d requests were served, want at most %d of each attacker", n, maxOfUser)
	}
}
