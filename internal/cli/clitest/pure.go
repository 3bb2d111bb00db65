//go:build !live

package clitest

// live is true in a build of the tests that start processes.
const live = false
