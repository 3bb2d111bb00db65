package xrc

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rds-go/rds/xrc/objects"
)

// list is how a registrant is told of targets.
func list(numbers []uint32) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

const registrantRole = "registrant"

// beRegistrant is the process: path service.
func beRegistrant(args []string) error {
	s, err := openAt(args[0])
	need(err)
	dom, err := s.OpenDomain(os.NewFile(3, "domain"), os.O_CREATE)
	need(err)
	if service, _ := strconv.ParseUint(args[1], 10, 64); service != 0 {
		if _, err := s.Advertise(ServiceAttr{ID: service, Domain: dom}); err != nil {
			return err
		}
	}
	fmt.Println("ready", args[1])
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		need(err)
		f := strings.Fields(line)
		if f[0] == "handle" {
			need(hearErrors(s))
		}
		for k, number := range f[1:] {
			n, _ := strconv.ParseUint(number, 10, 32)
			if f[0] == "register" {
				_, err = s.Register(dom, uint32(n))
			} else {
				err = leave(s, dom, uint32(n), k%64 == 0)
			}
			if err != nil {
				return fmt.Errorf("target %d: %w", n, err)
			}
		}
		fmt.Println("did", f[0], nil)
	}
}

// hearErrors takes events until the marker that stands for those beyond the length of the queue.
func hearErrors(s *Session) error {
	for {
		e, err := s.NextEvent(context.Background())
		if err != nil {
			return err
		}
		if err := s.Ack(e); err != nil {
			return err
		}
		switch {
		case e.Kind == objects.EventsLost:
			return nil
		case e.Kind != objects.EventQPFatal:
			return fmt.Errorf("event %v of %v", e.Kind, e.Object)
		}
	}
}

// leave unregisters from a target, which it may query first.
func leave(s *Session, dom *Domain, n uint32, query bool) error {
	if query {
		info, err := s.QueryTarget(dom, n)
		if err != nil {
			return err
		}
		if info.Attr.State != objects.StateError {
			return fmt.Errorf("state %v", info.Attr.State)
		}
	}
	return s.Unregister(context.Background(), dom, n)
}
