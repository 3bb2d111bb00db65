// Package mr maps memory for remote access: regions, their keys, the check of
// each access, and the invalidation after which memory is its owner's again.
//
// A Device is the table of one host device. It knows no connection and no
// message: a key is good with every peer, outlives every reconnect, and is
// ended by nothing but its owner, a peer that was given the right to, or its
// single use. An Owner (an application, a session, a socket) maps memory and frees it; a
// Domain is the protection domain a key belongs to; a Reader is how an event
// loop or a transmitter looks keys up and touches the memory behind them.
//
// # Keys
//
// A Key is the index of a base and a version. A base has one live key at most;
// each mapping takes the version after the last, so that old keys of the base
// are dead. Before a version could come again the base rests
// (Config.Quarantine), and a base that was freed is reused after all others of its pool.
// On the outside a Key is a cipher of both, with a secret of the device, so that
// one key tells nothing of another.
//
// What isolates is the domain; domains may be inside others, which reach them. Where all peers
// may ask for one, as for that of each application of RDS, a key is all that keeps peers
// out who were not given it: Config.PeerLookUps then bounds how many keys they can try. Requests of peers that have a key are not
// affected: Give says who has one.
//
// # Sections
//
// What Check returns may be touched until Leave, not longer:
//
//	r.Enter()
//	dst, fault := r.Check(&req)
//	copy(dst, payload)
//	r.Leave()
//
// Enter and Leave each write one word that no other goroutine writes; Check
// reads a slot and a mapping that does not change while it is published; where the
// base of a key is the Reader remembers. The
// three take about 8 ns together, allocate nothing and do not slow each other down.
// Sections are short: no lock and nothing that waits; at most one chunk copied, or
// one system call that does not block.
// Whoever has more to copy makes several and checks again in each, so that an invalidation
// cuts a long transfer short instead of waiting for it.
//
// # Invalidation
//
// Dropping a region (Free, Revoke, Finish, Retire) clears its slot: sections
// that begin later find the key dead. Memory is released after a grace period:
// when all sections that were open have ended.
//
//	        Map            Free                barrier        sections ended
//	CLEAN ──────▶ MAPPED ──────▶ FREED (dirty) ──────▶ INVALIDATING ──────▶ CLEAN
//	                                                       │  ▲                or resting
//	                                     Config.Stuck over ▼  │ the reader leaves
//	                                                      STALE
//
// Free is lazy in what it waits for, not in what it does: the slot is cleared
// at once, for the price of a store, so that a batch has nothing to clear and
// peers lose the key as soon as they may. FreeInvalidate and Barrier cover all that was dropped before
// on the whole device, in one grace period. Concurrent barriers share one: the
// first caller leads, later ones form the next batch. There is no worker between a
// caller and its barrier; one goroutine at most runs when a watermark is
// reached, dropped regions grow old (Config.Linger), or a leader gives up. While a
// leader sleeps, Leave yields the processor, so that goroutines copying at full
// speed do not keep a preempted reader from the end of its section.
//
// A reader that does not leave makes barriers fail with ErrStuck. Nothing it
// may touch is ever reported as released; when it leaves, the batch completes.
//
// # Limits
//
// Regions count against their pool and their owner until the grace period is
// over. An owner without a limit of its own may hold as much as it leaves free.
//
// # Concurrency
//
// All methods may be called concurrently, except those of a Reader, which
// belong to one goroutine at a time. Locks are taken in the order Device.mu,
// flusher.mu, pool.mu, table.mu; linger.mu, guard.mu and offenders.mu are leaves. Released
// and the logger are called without any. guard.mu alone is taken in sections. Barriers, FreeInvalidate, Close and Revoke must
// not be called inside a section or from Released: they would wait for their caller.
//
// # Buffers
//
// The memory of a region stays the caller's, who keeps it mapped and in place
// until it is released, and must expect peers to change it as far as the rights
// go. The package touches it only in FetchAdd and CompareSwap.
package mr
