// Testsum reads what go test -json prints and says what a person wants to
// know: the output of tests that failed, which failures a second look excuses,
// the reasons of skips, and one line of counts.
//
//	testsum -stage pure -tally FILE <events
//	testsum -stage live -tally FILE -again 'go test -tags live' <events
//	testsum -total FILE [-known test/flaky.txt -today 2026-11-27]
//
// The first form reads the events of one run and appends its outcome to a tally
// file; it exits with 1 if a test failed. With -again it runs each test that failed because something
// did not happen in time alone, twice, by that command: a test that passes both times is FLAKY and
// counts as passed. -exit is the exit status of the run. The third form
// adds up a tally file, prints the flaky tests, the skips by reason and the line of counts, and
// exits with 1 if anything failed or more than 3 tests were flaky, or if a known flaky test has
// been known for more than 14 days.
//
// Some failures are never excused, because once in twenty runs is what a defect of the product
// looks like. They are printed as PROMISE: a test that says so itself (package rdstest has the
// word in the verdicts on messages), a data race, a panic or a fatal error in the test binary or a
// child process, a time-out of the test binary, a test or a package without a result, and a package
// that fails beside its tests, as it does for a leaked goroutine.
//
// Tests are counted as leaves: a test with subtests counts through them, and
// by itself only if it failed while none of them did. A package that failed
// with no failed test counts as one failure.
package main
