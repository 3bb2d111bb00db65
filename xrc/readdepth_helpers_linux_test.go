package xrc

import (
	"fmt"
	"os"
	"strconv"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

const serverRole = "server"

// beServer is a process with a queue and memory: path service.
func beServer(args []string) error {
	s, err := openAt(args[0])
	need(err)
	const rights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic
	const receives = 16
	p, err := outfit(s, os.NewFile(3, "domain"), receives, 64, rights)
	need(err)
	for range receives {
		if _, err := p.srq.PostReceive(iwarp.ReceiveRequest{SGE: []iwarp.SGE{p.mem.SGE(1024, 64)}}); err != nil {
			return err
		}
	}
	id, _ := strconv.ParseUint(args[1], 10, 64)
	if _, err := s.Advertise(ServiceAttr{ID: id, Domain: p.dom, SRQ: p.srq, Access: rights}); err != nil {
		return err
	}
	fmt.Println("ready", p.srq.Num(), uint32(p.mem.Key()), p.mem.Addr())
	return testEnds()
}
