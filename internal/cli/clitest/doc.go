// Package clitest runs commands of this module as processes, for tests.
//
// Build, in TestMain, makes the binaries; Start runs one. A test waits for
// lines of its output, never for time to pass.
package clitest
