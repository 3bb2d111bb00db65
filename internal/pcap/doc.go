// Package pcap writes and reads capture files of one TCP conversation that never
// took place: Ethernet, IPv4 and TCP around the octets two ends have to say, with
// right lengths, numbers and checksums, so that any dissector opens the file
// without complaint. Golden captures of the transports' tests are made with it.
//
// A [Conversation] is built by [New], its steps, and Bytes. [Streams] takes such a
// file apart and checks every number in it.
//
// # Concurrency
//
// A Conversation belongs to one goroutine.
//
// # Buffers
//
// What is given to Send is copied. Bytes returns the conversation's own buffer;
// it is valid until the next step.
package pcap
