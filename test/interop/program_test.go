//go:build interop

package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// programTime is how long a program may take to say what is waited for, or to
// end.
const programTime = 60 * time.Second

// program is a program that runs on a guest or on our side of the bridge. Its
// methods are for one goroutine.
type program struct {
	call *peer.Call
	name string           // where and what, for people
	out  string           // printed so far
	seen int              // bytes of it that expect is done with
	end  *peer.ExecResult // nil while it runs
}

// exec starts a program, which is killed when the test ends. Its output is
// shown if the test failed.
func (p *process) exec(t *testing.T, argv ...string) *program {
	t.Helper()
	return p.execWith(t, nil, argv...)
}

// execWith is exec with more of an environment.
func (p *process) execWith(t *testing.T, env []string, argv ...string) *program {
	t.Helper()
	call, err := p.Start(peer.OpExec, peer.ExecArgs{Argv: argv, Env: slices.Concat(p.env, env)})
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	g := &program{call: call, name: p.name + ": " + strings.Join(argv, " ")}
	t.Cleanup(func() {
		if g.end == nil {
			ctx, cancel := context.WithTimeout(context.Background(), callTime)
			defer cancel()
			_ = g.call.Cancel(ctx)
			_, _ = g.result(ctx)
		}
		if t.Failed() {
			t.Logf("%s\n%s", g.name, strings.TrimRight(g.out, "\n"))
		}
	})
	return g
}

// run runs a program that must succeed and returns its output.
func (p *process) run(t *testing.T, argv ...string) string {
	t.Helper()
	return p.exec(t, argv...).succeed(t)
}

// expect waits until the program has printed what a regular expression matches,
// behind what an earlier call matched, and returns the match and its groups.
func (g *program) expect(t *testing.T, expr string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), programTime, fmt.Errorf("not so after %v", programTime))
	defer cancel()
	re := regexp.MustCompile(expr)
	for {
		if at := re.FindStringSubmatchIndex(g.out[g.seen:]); at != nil {
			match := re.FindStringSubmatch(g.out[g.seen:])
			g.seen += at[1]
			return match
		}
		if g.end != nil {
			t.Fatalf("%s: %s without %q", g.name, g.end.State, expr)
		}
		r, err := g.call.Output(ctx, len(g.out))
		g.out += r.Output
		if err == nil && !r.Running {
			_, err = g.result(ctx)
		}
		if err != nil {
			t.Fatalf("%s: %q wanted: %v", g.name, expr, err)
		}
	}
}

// result waits for the program's end. If ctx ends first the program is killed,
// and its output kept.
func (g *program) result(ctx context.Context) (peer.ExecResult, error) {
	if g.end != nil {
		return *g.end, nil
	}
	g.end = &peer.ExecResult{State: "lost"}
	err := g.call.Wait(ctx, g.end)
	if err != nil && ctx.Err() != nil { // it is dying
		late, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		err = errors.Join(err, g.call.Wait(late, g.end))
	}
	g.out = cmp.Or(g.end.Output, g.out)
	return *g.end, err
}

// wait waits until the program ends.
func (g *program) wait(t *testing.T) peer.ExecResult {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), programTime, fmt.Errorf("still running after %v", programTime))
	defer cancel()
	r, err := g.result(ctx)
	if err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	return r
}

// succeed waits until the program ends, which it must with status 0.
func (g *program) succeed(t *testing.T) string {
	t.Helper()
	r := g.wait(t)
	if r.Status != 0 {
		t.Fatalf("%s: %s", g.name, r.State)
	}
	return r.Output
}

// kill ends the program at once.
func (g *program) kill(t *testing.T) {
	t.Helper()
	if err := g.call.Cancel(t.Context()); err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	g.wait(t)
}

// tell gives the program a line of input.
func (g *program) tell(t *testing.T, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	if err := g.call.Input(ctx, line+"\n"); err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
}
