package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/exec"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

const service = 0x5348 // of worker 0; that of worker 1 follows

var ctx = context.Background()

func main() {
	log.SetFlags(0)
	switch len(os.Args) {
	case 3:
		work(os.Args[1], os.Args[2])
	case 4:
		talk(os.Args[1], os.Args[2], must(netip.ParseAddr(os.Args[3])))
	default:
		log.Fatal("usage: sharedtarget SOCKET WORKERS-SOCKET WORKERS-ADDRESS")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// talk is the client, which starts the workers, too.
func talk(socket, workers string, remote netip.Addr) {
	domain := must(os.CreateTemp("", "sharedtarget-")) // whoever has it open may use its domain
	os.Remove(domain.Name())
	var cmds [2]*exec.Cmd
	var lines [2]*bufio.Scanner
	for i := range cmds {
		cmd := exec.Command(os.Args[0], workers, fmt.Sprint(i))
		cmd.ExtraFiles, cmd.Stderr = []*os.File{domain}, os.Stderr
		must(cmd.StdinPipe()) // its end is the worker's
		cmds[i], lines[i] = cmd, bufio.NewScanner(must(cmd.StdoutPipe()))
		if err := cmd.Start(); err != nil || !lines[i].Scan() { // a line says that it is ready
			log.Fatalf("worker %d: %v", i, err)
		}
	}
	s := must(must(rds.Dial(socket)).XRC(ctx))
	cq := must(s.CreateCQ(256))
	ini := must(s.Connect(ctx, xrc.InitiatorAttr{PD: must(s.AllocPD()), CQ: cq, Remote: remote, Service: service}))
	other := must(ini.Join(ctx, service+1)) // keeps the same target
	send := func(to int, queue uint32) iwarp.Status {
		must(ini.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: queue, Inline: []byte("hello")}))
		status := next(cq).Status
		if status == iwarp.Success && lines[to].Scan() {
			fmt.Printf("worker %d: %s\n", to, lines[to].Text())
		}
		return status
	}
	send(0, ini.Queue().SRQN)
	send(1, other.SRQN)
	_ = cmds[0].Process.Kill()
	fmt.Println("worker 0 is killed")
	status := iwarp.Success
	for status == iwarp.Success { // until the daemon has noticed
		status = send(0, ini.Queue().SRQN)
	}
	fmt.Printf("to worker 0: %v\n", status)
	send(1, other.SRQN)
	_ = cmds[1].Process.Kill()
}

// next waits for a completion.
func next(cq *xrc.CQ) iwarp.Completion {
	var list [1]iwarp.Completion
	for cq.Poll(list[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			log.Fatal(err)
		}
	}
	return list[0]
}
