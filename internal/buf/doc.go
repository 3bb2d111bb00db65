// Package buf hands out counted byte buffers from bounded pools.
//
// A Buf has one or more holders; the last Release returns it to its Pool.
// Buffers come in power-of-two classes; free ones are kept last in, first out,
// so that the next user finds its bytes still in the cache, and each class
// keeps a bounded number of bytes, the rest is left to the garbage collector. So is
// what nobody has needed for a second or two: an idle pool is empty.
package buf
