// Package report writes an rds.Info the way rds-info does: a blank line, a
// title, a row of column names and rows of right-aligned cells per report.
//
// The applications of a node are a report of its own; in that of the sockets
// their columns stand behind those of rds-info, as the transport does in that of
// the connections. XRC takes the place of InfiniBand.
//
// Where all cells fit, columns are as wide as those of rds-info; a longer one,
// such as an IPv6 address, widens its column. The last three columns of the
// TCP report are stream offsets, shown as rds-info shows sequence numbers:
// modulo 2^32.
package report
