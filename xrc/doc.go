// Package xrc has the objects of XRC for programs. A daemon plays the kernel and the card, and the
// objects outlive the process, or do not, as XRC has it; or a node in the process does, for that process.
//
//	s, err := client.XRC(ctx)                           // a session of rdsd: one at a time for each rds.Client
//	s, err := node.XRC(ctx)                             // or one of an rds.Node, which has any number
//	dom, err := s.OpenDomain(file, os.O_CREATE)          // processes that open the same file share it
//	pd, err := s.AllocPD()
//	cq, err := s.CreateCQ(256)
//	mem, err := pd.Alloc(1<<16, mr.LocalWrite)           // registered memory
//	srq, err := s.CreateSRQ(xrc.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 128})
//	_, err = s.Advertise(xrc.ServiceAttr{ID: 7, Domain: dom, SRQ: srq})
//	ini, err := s.Connect(ctx, xrc.InitiatorAttr{PD: pd, CQ: cq, Remote: host, Service: 7})
//	_, err = ini.PostSend(iwarp.WorkRequest{Queue: ini.Queue().SRQN, SGE: ...})
//
// Work requests, receives and completions are those of package iwarp. They go by queues in memory
// that the process shares with its daemon, one system call at most for each list that is posted,
// and none while the daemon is at work. With a node in the process they are in ordinary memory.
//
// # Memory
//
// All memory is of PD.Alloc: the daemon's connections read and write it in place. An address is
// an offset in the session's memory. Writes, reads and atomics name, as messages do, a shared receive
// queue: they reach the memory of its protection domain. What a work request names belongs to the daemon until its
// completion was polled.
//
// # Who waits for whom
//
// A request keeps its place in the send queue until Poll has taken its completion, which it shows of
// signaled requests and of those that failed. Wait is woken for these and not for others. A receive is taken when there is room for its completion: a process
// that does not poll has its shared receive queue run dry, which its peers find not ready, and
// nobody else waits for it.
//
// # The end
//
// Closing the session destroys its objects, and so does the death of the process. When the daemon
// ends, or another process takes its place, they are gone: each of them has one
// EventDeviceFatal, calls fail with ErrDaemonLost, and completions that were there can still be
// polled. A new session can be begun with the same Client when that is attached again. A node that is
// closed ends its sessions in the same way; calls fail with net.ErrClosed then.
//
// All methods may be called concurrently.
package xrc
