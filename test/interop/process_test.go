//go:build interop

package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// Time limits. The guest boots in about 5 s.
const (
	bootTime = 90 * time.Second
	callTime = 30 * time.Second
	// A host that sends to one that was rebooted notices when TCP retransmits,
	// at growing intervals, or by keepalive after 30 s.
	pingTime = 75 * time.Second
	pollTime = pingTime
	// A ping that was lost is not answered after this.
	retryTime = 4 * time.Second
	runTime   = 150 * time.Second
)

// process is one end of a test: a guest or one of our nodes.
type process struct {
	*peer.Client
	name string
	addr netip.Addr
	cmd  *exec.Cmd
	log  string   // file with its output
	env  []string // environment that its programs get besides its own

	input  io.Closer // input of a node: closing it ends the commands; nil for a guest
	daemon *daemon   // daemon that a node is attached to, if there is one
}

// stop kills the process and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.Close()
	_ = p.cmd.Wait()
}

// stopWith stops the process when the owner ends, and shows its output if the
// owner failed.
func (p *process) stopWith(owner *testing.T) {
	owner.Cleanup(func() {
		p.stop()
		if owner.Failed() {
			owner.Logf("end of the output of %s:\n%s", p.name, tail(p.log, 32<<10))
		}
	})
}

// tail returns the last lines of a file, at most n bytes.
func tail(file string, n int) []byte {
	b, err := os.ReadFile(file)
	if err != nil {
		return []byte(err.Error())
	}
	if len(b) > n {
		b = b[len(b)-n:]
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	return b
}

// boot starts a guest on a tap device and waits until it takes commands.
func (l *lab) boot(t *testing.T, tap int, addr netip.Addr) *process {
	t.Helper()
	p := l.startGuest(t, tap, addr, "")
	p.waitReady(t)
	return p
}

// startGuest starts a guest, which runs until the lab's owner ends. stack is
// what its program runs on, if that is not the lab's; see its newStack.
func (l *lab) startGuest(t *testing.T, tap int, addr netip.Addr, stack string) *process {
	t.Helper()
	dir := l.owner.TempDir()
	control := filepath.Join(dir, "control")
	listener, err := net.Listen("unix", control)
	must(t, err)
	defer func() { _ = listener.Close() }()
	p := &process{name: "guest " + addr.String(), addr: addr, log: l.logFile(t, "guest-")}
	ip := addr.As4()
	p.cmd = l.command("qemu-system-x86_64",
		// Software emulation on purpose: it works everywhere, and with
		// -accel kvm Debian's kernel hangs on some nested hosts.
		"-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "512",
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", l.kernel.image, "-initrd", l.image,
		"-append", "console=ttyS0 "+l.options+" panic=-1 guest_ip="+netip.PrefixFrom(addr, network.Bits()).String()+" guest_stack="+cmp.Or(stack, l.stack),
		"-serial", "file:"+p.log,
		"-chardev", "socket,id=control,path="+control,
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=control,name=control",
		"-netdev", "tap,id=net,ifname=tap"+strconv.Itoa(tap)+",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:77:"+hexByte(ip[2])+":"+hexByte(ip[3]))
	var stderr bytes.Buffer
	p.cmd.Stderr = &stderr
	must(t, p.cmd.Start())
	_ = listener.(*net.UnixListener).SetDeadline(time.Now().Add(callTime))
	conn, err := listener.Accept()
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		t.Fatalf("QEMU did not start: %v\n%s", err, stderr.Bytes())
	}
	p.Client = peer.NewClient(conn)
	p.stopWith(l.owner)
	if l.watch {
		l.owner.Cleanup(func() { p.checkKernel(l.owner) })
	}
	return p
}

func hexByte(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}

// waitReady waits for the answer to a first command.
func (p *process) waitReady(t *testing.T) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	if err := p.Call(ctx, peer.OpCounters, nil, nil); err != nil {
		t.Fatalf("%s does not answer: %v", p.name, err)
	}
	t.Logf("%s answers after %v", p.name, time.Since(start).Round(time.Millisecond))
}

// show logs what the process's stack reports about itself, if the test failed.
func (p *process) show(t *testing.T) {
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), retryTime)
	defer cancel()
	quit, cancelQuit := context.WithTimeout(context.Background(), 2*retryTime)
	defer cancelQuit()
	var state json.RawMessage
	err := p.Call(ctx, peer.OpState, nil, &state)
	t.Logf("state of %s: %s, %v", p.name, state[:min(len(state), 16<<10)], err)
	if err != nil && p.input != nil {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its log gets the stacks
		select {
		case <-p.Done():
		case <-quit.Done():
		}
	}
}

// busy returns how much processor time the process has used.
func (p *process) busy(t *testing.T) time.Duration {
	t.Helper()
	pid := p.cmd.Process.Pid
	if p.daemon != nil { // whose peer it is about
		pid = p.daemon.cmd.Process.Pid
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	must(t, err)
	// Fields 14 and 15, counted behind the name in brackets, are user and
	// system time in ticks of 10 ms.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, err1 := strconv.Atoi(string(fields[11]))
	system, err2 := strconv.Atoi(string(fields[12]))
	must(t, errors.Join(err1, err2))
	return time.Duration(user+system) * 10 * time.Millisecond
}

// quit has a node end by itself, as when its application returns, and waits.
func (p *process) quit(t *testing.T) {
	t.Helper()
	stuck := time.AfterFunc(callTime, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer stuck.Stop()
	err := p.input.Close()
	<-p.Done()
	if err := errors.Join(err, p.cmd.Wait()); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
}

// startNode starts one of our nodes, which runs until t ends.
func (l *lab) startNode(t *testing.T, addr netip.Addr, paths int) *process {
	t.Helper()
	return l.startProgram(t, "node", addr, "-addr", addr.String(), "-paths", strconv.Itoa(paths))
}

// startProgram starts the node program.
func (l *lab) startProgram(t *testing.T, name string, addr netip.Addr, args ...string) *process {
	t.Helper()
	program, err := nodeOnce()
	must(t, err)
	p := &process{name: name + " " + addr.String(), addr: addr, log: l.logFile(t, "node-")}
	log, err := os.OpenFile(p.log, os.O_WRONLY, 0)
	must(t, err)
	defer func() { _ = log.Close() }()
	p.cmd = l.command(program, args...)
	p.cmd.Stderr = log
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	must(t, errors.Join(err1, err2, p.cmd.Start()))
	p.input = in
	p.Client = peer.NewClient(&pipe{out, in})
	p.stopWith(t)
	p.waitReady(t)
	return p
}

// pipe joins the two pipes of a child process.
type pipe struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p *pipe) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p *pipe) Close() error { return errors.Join(p.in.Close(), p.ReadCloser.Close()) }
