// Blockfetch reads blocks of 8 KiB from a server, as a database does from its
// storage: a small datagram asks, the block itself is written straight into the
// asker's memory.
//
//	$ go run ./examples/blockfetch --listen 127.0.0.2:4000
//	serving 128 blocks of 8192 bytes on 127.0.0.2:4000
//
//	$ go run ./examples/blockfetch --connect 127.0.0.2:4000 --from 127.0.0.1
//	100000 blocks in 3.32 s: 30k blocks/s, 246 MB/s, all verified
//
// # How it goes
//
//	client                                         server
//	GetMR(buffer) -> cookie
//	request: block number, Dest = cookie  ───────▶ Recv: Message.Dest
//	buffer  ◀─────────────────── RDMA write ────── Send: RDMA{Cookie, block}
//	Recv    ◀─────────────────── reply: number ───       with the number as payload
//
// The client exposes one buffer for each request that it keeps outstanding. A
// region stays exposed for the whole run; a program that hands its memory to
// others in between ends it with FreeMR, or exposes it with MRUseOnce.
//
// The server sends one message that has both the write and the reply. The reply
// is delivered after the block is in place, so the client may look at its buffer
// when it has the reply, and needs to wait for nothing else. A write that is
// refused (a cookie that is not valid any more, say) costs that one reply and
// nothing else: the connection and everybody on it go on.
//
// Both take what has come in one call and send what it leads to in one call
// (RecvBatch, SendBatch): many writes and replies leave by one system call.
//
// The blocks never change, so the server does not care when a write has ended. One
// that reuses its memory asks for the fate (Outgoing.Notify) and waits for it.
//
// Memory is from AllocMemory, which any provider takes. --provider says where
// sockets come from: node, a stack of its own in each process, or rdsd.
package main
