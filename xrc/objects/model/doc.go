// Package model checks the protocol by which XRC targets live and die, in all
// interleavings of a small world. It has tests only.
//
// The world is two hosts. One has a daemon with two target numbers and two or
// three sessions that register and unregister; the other has a daemon with two
// initiators. Between them is a connection with two frames each way, which may be
// lost at any time, and come back. Either daemon may be restarted, any session
// killed, any target put into error. Time is not in it: what has a deadline may
// happen at once or never.
//
// The model is harsher than package xrc where that costs nothing. Numbers do not
// rest, they are used again at once, and a restarted daemon counts generations
// from the beginning: generations and incarnations alone have to keep things
// apart. A message carries the generation of its target; in package xrc it is on
// a connection that belongs to the target.
//
// What must hold in every state, or on every step:
//
//   - a target has a registration, and a registration a target;
//   - a session that is registered with a target in error has heard of it, or has
//     one event waiting that tells it, and not both; nobody else has an event;
//   - an initiator has one live target at most;
//   - nothing reaches a target that is not the one it was meant for: no message,
//     no resume, and no reap;
//   - messages are executed in order and once, whatever is lost, suspended and
//     resumed in between, and what is reported as done has been executed;
//   - a target that has a registration is not destroyed;
//   - when initiators close and sessions do no more than read their events and
//     leave what is in error, all tables become empty: nothing dead accumulates.
//
// Each of the rules that keep it so is broken once, to see that the walk notices.
package model
