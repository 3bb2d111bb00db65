package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/keyguess"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/xrc"
)

// refusedKeys are the lines of a log about keys that were refused, and their sum.
func refusedKeys(log string) (lines int, sum uint64) {
	for _, m := range regexp.MustCompile(`bad keys.*"refused": (\d+)`).FindAllStringSubmatch(log, -1) {
		n, _ := strconv.ParseUint(m[1], 10, 64)
		lines, sum = lines+1, sum+n
	}
	return lines, sum
}

// A stranger tries keys at a daemon whose application has 1,000 regions: 64 a second are
// looked up, none hits, a peer that was sent the cookies uses them meanwhile, and the log,
// rdsinfo and the metrics say in sum what was tried.
func TestStrangerGuessesKeysOfAnApplication(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	d := daemonAt(t, "--listen", "127.22.60.9", "--port", "17260", "--wire", "xrc", "--socket", attach, "--control", ctl, "--metrics", "127.22.60.9:17262")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	app := bind(t, clientOf(t, attach), "127.22.60.9:4000")
	peer := bind(t, nodeOf(t, rds.Config{Port: 17260, Wire: rds.WireXRC}), "127.22.60.8:4000")
	const regions, size = 1000, 8 << 10
	cookies := make([]rds.Cookie, regions)
	for i := range cookies {
		m, err := app.AllocMemory(size)
		must(t, err)
		cookies[i], err = app.GetMR(m.B, 0)
		must(t, err)
		must(t, app.SendMessage(ctx, &rds.Outgoing{To: peer.LocalAddrPort(), HasDest: true, Dest: cookies[i]}))
		got, err := peer.Recv(ctx)
		if must(t, err); !got.HasDest || got.Dest != cookies[i] {
			t.Fatalf("%v", &got)
		}
	}
	key := cookies[0].Key()
	attack, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	var result keyguess.Result
	over := make(chan error, 1)
	go func() {
		var err error
		result, err = keyguess.Run(attack, 17261, netip.MustParseAddr("127.22.60.1"), app.LocalAddrPort(), func() keyguess.Guess {
			key++
			return keyguess.Guess{Key: key, Addr: uint64(cookies[0].Offset())}
		})
		over <- err
	}()
	local, used := make([]byte, 8), 0
	for running := true; running; used++ {
		must(t, peer.SendMessage(ctx, &rds.Outgoing{To: app.LocalAddrPort(), Notify: true, RDMA: &rds.RDMA{Cookie: cookies[used%regions], Local: [][]byte{local}, Write: true, Silent: true}}))
		m, err := peer.Recv(ctx)
		if must(t, err); m.Status != rds.StatusSuccess {
			t.Fatalf("operation %d of a peer that was sent the key: %v", used, &m)
		}
		select {
		case err := <-over:
			must(t, err)
			running = false
		default:
		}
	}
	_, report, _ := clitest.Run(t, bin.Path("rdsinfo"), "--control", ctl, "-c")
	count := func(name string) float64 {
		m := regexp.MustCompile(name + ` +(\d+)`).FindStringSubmatch(report)
		if m == nil {
			t.Fatalf("no %s in\n%s", name, report)
		}
		v, _ := strconv.ParseFloat(m[1], 64)
		return v
	}
	denied, unseen := count("xrc_keys_denied"), count("xrc_keys_unseen")
	t.Logf("%d guesses in %v, %.0f looked up, %.0f unseen, %d hits; %d operations of a peer beside", result.Tried, result.Took, denied, unseen, result.Hits, used)
	if most := xrc.PeerLookUps * (result.Took.Seconds() + 2); result.Hits != 0 || denied > most || denied+unseen < float64(result.Tried) || unseen == 0 {
		t.Errorf("%d hits, %.0f look-ups where %.0f are allowed, %.0f unseen of %d guesses", result.Hits, denied, most, unseen, result.Tried)
	}
	if used < 10 {
		t.Errorf("%d operations with known keys beside the guesses", used)
	}
	metrics := metricsAt(t, "127.22.60.9:17262")
	for _, want := range []string{fmt.Sprintf("rds_xrc_keys_denied_total %.0f", denied), fmt.Sprintf("rds_xrc_keys_unseen_total %g", unseen), `rds_memory_bad_keys_total{reason="mr: access denied"}`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	d.Signal(os.Interrupt)
	d.Wait()
	lines, sum := refusedKeys(d.Stderr.String())
	if lines == 0 || lines > 2 || sum < result.Tried {
		t.Errorf("%d lines of the log sum up %d of %d guesses:\n%s", lines, sum, result.Tried, d.Stderr.String())
	}
}
