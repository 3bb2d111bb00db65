//go:build live

package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// What an application had submitted when it was killed is delivered, though the daemon
// had taken none of it from the ring: Send had returned.
func TestSubmittedBeforeAKillIsDelivered(t *testing.T) {
	const messages = 3000 // more than one turn of the session's goroutine takes
	if os.Getenv(rdstest.RoleEnv) == "submitter" {
		beSubmitter(strings.Fields(os.Getenv(rdstest.ArgEnv)), messages)
	}
	t.Parallel()
	l := newLab(t)
	_, svc, path := served(t, l, config.Node{Linger: rdstest.Patience}, config.Service{})
	receiver := l.bind(l.node(config.Node{}))
	d := rdstest.Process("TestSubmittedBeforeAKillIsDelivered", "submitter", path, rdstest.AddrOf(rdstest.NewAddr(), 0).String(), receiver.LocalAddrPort().String())
	in, out := rdstest.Piped(t, d)
	said := bufio.NewScanner(out)
	hears := func(want string) {
		t.Helper()
		if !said.Scan() || said.Text() != want {
			t.Fatalf("the application says %q, %v; want %q", said.Text(), said.Err(), want)
		}
	}
	hears("ready")
	rdstest.Expect(t, receiver, "first")
	x := svc.all()[0]
	x.mu.Lock() // the daemon takes nothing, as one that is not given the processor
	_, err := in.Write([]byte("go\n"))
	if err == nil {
		hears("submitted")
		err = d.Process.Kill()
	}
	_ = d.Wait()
	time.AfterFunc(20*time.Millisecond, x.mu.Unlock) // as a rule the session's end waits for it by then, and is judged, not its goroutine
	rdstest.Must(t, err)
	rdstest.ExpectNumbers(t, receiver, messages)
}

// beSubmitter submits messages when it is told to, and waits to be killed.
func beSubmitter(args []string, messages int) {
	err := func() error {
		c, err := client.Dial(args[0])
		if err != nil {
			return err
		}
		s, err := c.Bind(netip.MustParseAddrPort(args[1]))
		if err != nil {
			return err
		}
		to := netip.MustParseAddrPort(args[2])
		if err := s.Send(context.Background(), to, []byte("first")); err != nil {
			return err
		}
		fmt.Println("ready")
		if _, err := os.Stdin.Read(make([]byte, 3)); err != nil {
			return err
		}
		for i := range uint64(messages) {
			if err := s.TrySend(to, binary.BigEndian.AppendUint64(nil, i)); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		fmt.Println("submitted")
		select {}
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
