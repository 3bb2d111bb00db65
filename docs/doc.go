// Package docs has the pages that tests read.
package docs

import _ "embed"

// Locking is the order of the locks.
//
//go:embed LOCKING.md
var Locking string
