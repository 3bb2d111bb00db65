// Package info has what reports of RDS say: a Report is a snapshot of a node, of rdsd or of the
// kernel, as rdsinfo shows it. Package rds has all of it, under names such as rds.Info and
// rds.SocketInfo: programs import that.
//
// The JSON names are those of the control socket, and stay. A Report that was made for several
// must not be changed.
package info
