package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

// rawCodec passes bytes as they are: no protobuf, which favours gRPC a little.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(d mem.BufferSlice, v any) error {
	b := v.(*[]byte)
	if n := d.Len(); cap(*b) < n {
		*b = make([]byte, n)
	} else {
		*b = (*b)[:n]
	}
	d.CopyTo(*b)
	return nil
}

func (rawCodec) Name() string { return "raw" }

var grpcDesc = grpc.ServiceDesc{
	ServiceName: "peer",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in []byte
		if err := dec(&in); err != nil {
			return nil, err
		}
		var t tally
		out := t.answer(in)
		return &out, nil
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Flow", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		serveConn(&grpcFlow{s: s})
		return nil
	}}},
}

const grpcMax = 8 << 20

func grpcServe(e *env) error {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(grpcMax))
	s.RegisterService(&grpcDesc, nil)
	return s.Serve(l)
}

func grpcConnect(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(grpcMax), grpc.WaitForReady(true)))
}

// A flow is a bidirectional stream; all are on one connection.
type grpcFlow struct {
	s interface {
		SendMsg(any) error
		RecvMsg(any) error
	}
	in []byte
}

// Send copies: the transport may still hold the message when SendMsg returns.
func (f *grpcFlow) Send(m []byte) error {
	b := append([]byte(nil), m...)
	return f.s.SendMsg(&b)
}
func (f *grpcFlow) Flush() error          { return nil }
func (f *grpcFlow) Recv() ([]byte, error) { err := f.s.RecvMsg(&f.in); return f.in, err }

func grpcDial(e *env) (openConn, error) {
	cc, err := grpcConnect(e.addr)
	if err != nil {
		return nil, err
	}
	return func() (Conn, error) {
		s, err := cc.NewStream(context.Background(), &grpcDesc.Streams[0], "/peer/Flow")
		return &grpcFlow{s: s}, err
	}, nil
}

// grpcUnary is a flow in which each message is an RPC.
type grpcUnary struct {
	cc      *grpc.ClientConn
	in, out []byte
}

func (u *grpcUnary) Send(m []byte) error { u.out = m; return nil }
func (u *grpcUnary) Flush() error        { return nil }
func (u *grpcUnary) Recv() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := u.cc.Invoke(ctx, "/peer/Call", &u.out, &u.in)
	return u.in, err
}

func grpcUnaryClient(e *env) error {
	cc, err := grpcConnect(e.addr)
	if err != nil {
		return err
	}
	probe := &grpcUnary{cc: cc}
	switch e.workload {
	case "pingpong":
		return pingpong(e, probe)
	case "mux": // 8 goroutines for each of the 64 sockets: an RPC names its destination
		var t meter
		for s := range muxSocks {
			for k := range muxWindow {
				go func() {
					u, m := &grpcUnary{cc: cc}, newMsg(mMsg, muxMsg)
					for i := s + k; !t.stop.Load(); i += muxWindow {
						m[2] = byte(i % muxSocks)
						stamp(m)
						r, err := call(u, m)
						if err != nil {
							return
						}
						t.add(age(r))
					}
				}()
			}
		}
		return t.measure(e, probe)
	}
	return fmt.Errorf("no unary %s", e.workload)
}
