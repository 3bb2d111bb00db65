package rdmap

import (
	"fmt"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// fields are the values tshark must find, by its names for them.
func (cp *capture) fields(t *testing.T) map[string][]string {
	t.Helper()
	want := map[string][]string{}
	add := func(name string, value uint64) { want[name] = append(want[name], fmt.Sprint(value)) }
	for _, m := range cp.messages {
		for _, ulpdu := range m.segments() {
			var seg Segment
			must(t, seg.Parse(ulpdu, OpsRFC5040|OpsRFC7306))
			add("iwarp_mpa.ulpdulength", uint64(len(ulpdu)))
			add("iwarp_ddp.dv", ddp.Version)
			add("iwarp_rdma.version", Version)
			add("iwarp_rdma.opcode", uint64(seg.Op))
			if seg.Op.Tagged() {
				add("iwarp_ddp.stag", uint64(seg.Tagged.STag))
				add("iwarp_ddp.tagged_offset", seg.Tagged.TO)
			} else {
				add("iwarp_ddp.qn", uint64(seg.Untagged.QN))
				add("iwarp_ddp.msn", uint64(seg.Untagged.MSN))
				add("iwarp_ddp.mo", uint64(seg.Untagged.MO))
			}
			if seg.Op.Invalidates() {
				add("iwarp_rdma.inval_stag", uint64(seg.Untagged.ULPData))
			}
			addBody(t, &seg, add)
		}
	}
	return want
}

func addBody(t *testing.T, seg *Segment, add func(string, uint64)) {
	t.Helper()
	var err error
	switch seg.Op {
	case OpReadRequest:
		var r ReadRequest
		err = r.Decode(seg.Payload)
		add("iwarp_rdma.sinkstag", uint64(r.SinkSTag))
		add("iwarp_rdma.sinkto", r.SinkTO)
		add("iwarp_rdma.rdmardsz", uint64(r.Size))
		add("iwarp_rdma.srcstag", uint64(r.SourceSTag))
		add("iwarp_rdma.srcto", r.SourceTO)
	case OpAtomicRequest:
		var r AtomicRequest
		err = r.Decode(seg.Payload)
		add("iwarp_rdma.atomic.opcode", uint64(r.Op))
		add("iwarp_rdma.atomic.request_identifier", uint64(r.ID))
		add("iwarp_rdma.atomic.remote_stag", uint64(r.STag))
		add("iwarp_rdma.atomic.remote_tagged_offset", r.TO)
		if r.Op == FetchAdd {
			add("iwarp_rdma.atomic.add_data", r.Add)
			add("iwarp_rdma.atomic.add_mask", r.AddMask)
		} else {
			add("iwarp_rdma.atomic.swap_data", r.Add)
			add("iwarp_rdma.atomic.swap_mask", r.AddMask)
		}
		add("iwarp_rdma.atomic.compare_data", r.Compare)
		add("iwarp_rdma.atomic.compare_mask", r.CompareMask)
	case OpAtomicResponse:
		var r AtomicResponse
		err = r.Decode(seg.Payload)
		add("iwarp_rdma.atomic.original_request_identifier", uint64(r.ID))
		add("iwarp_rdma.atomic.original_remote_data_value", r.Value)
	case OpTerminate:
		var r Terminate
		err = r.Decode(seg.Payload, Hints{})
		addTerminate(&r, add)
	}
	must(t, err)
}

func addTerminate(r *Terminate, add func(string, uint64)) {
	flag := func(name string, set bool) {
		if set {
			add(name, 1)
		} else {
			add(name, 0)
		}
	}
	add("iwarp_rdma.term_layer", uint64(r.Cause.Layer()))
	etype, code := "iwarp_rdma.term_etype_rdma", "iwarp_rdma.term_errcode_rdma"
	switch {
	case r.Cause.Layer() == LayerMPA:
		etype, code = "iwarp_rdma.term_etype_llp", "iwarp_rdma.term_errcode_llp"
	case r.Cause.Layer() == LayerDDP && r.Cause.Type() == 1:
		etype, code = "iwarp_rdma.term_etype_ddp", "iwarp_rdma.term_errcode_ddp_tagged"
	case r.Cause.Layer() == LayerDDP:
		etype, code = "iwarp_rdma.term_etype_ddp", "iwarp_rdma.term_errcode_ddp_untagged"
	}
	add(etype, uint64(r.Cause.Type()))
	add(code, uint64(r.Cause.Code()))
	flag("iwarp_rdma.term_hdrct_m", r.HasLen)
	flag("iwarp_rdma.hdrct_d", r.HasDDP)
	flag("iwarp_rdma.hdrct_r", r.HasRead)
}
