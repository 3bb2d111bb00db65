// Testsum reads what go test -json prints and says what a person wants to
// know: the output of tests that failed, the reasons of those that skipped,
// and one line of counts.
//
//	go test -json ./... | testsum -stage unit -tally FILE
//	testsum -total FILE
//
// The first form reads one run and appends its counts to a tally file; it
// exits with 1 if anything failed. With -v it shows all output as it comes.
// The second adds up a tally file.
//
// Tests are counted as leaves: a test with subtests counts through them, and
// by itself only if it failed while none of them did. A package that failed
// with no failed test (it does not build, a test hangs, TestMain exits) counts
// as one failure.
package main
