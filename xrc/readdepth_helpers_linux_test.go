package xrc

import (
	"errors"
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
	dom, err := s.OpenDomain(os.NewFile(3, "domain"), os.O_CREATE)
	pd, err2 := s.AllocPD()
	cq, err3 := s.CreateCQ(64)
	need(errors.Join(err, err2, err3))
	srq, err := s.CreateSRQ(SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 16})
	mem, err2 := pd.Alloc(4096, rights)
	need(errors.Join(err, err2))
	for range 16 {
		if _, err := srq.PostReceive(iwarp.ReceiveRequest{SGE: []iwarp.SGE{mem.SGE(1024, 64)}}); err != nil {
			return err
		}
	}
	id, _ := strconv.ParseUint(args[1], 10, 64)
	if _, err := s.Advertise(ServiceAttr{ID: id, Domain: dom, SRQ: srq, Access: rights}); err != nil {
		return err
	}
	fmt.Println("ready", srq.Num(), uint32(mem.Key()), mem.Addr())
	return testEnds()
}
