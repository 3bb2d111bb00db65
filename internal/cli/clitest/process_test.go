package clitest

import "testing"

func TestCrashed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false,
		"2026-11-28T03:02:20.733Z\tINFO\tready\n":                                  false,
		"rdsd: a panic: none of ours\n":                                            false,
		"SIGQUIT: quit\n\ngoroutine 1 [running]:\nmain.main()\n":                   false,
		"panic: no\n\ngoroutine 1 [running]:\nmain.main()\n":                       true,
		"ready\nfatal error: all goroutines are asleep\n\ngoroutine 1 [select]:\n": true,
		"==================\nWARNING: DATA RACE\nWrite at 0x00c0\n":                true,
	} {
		if got := crashed(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
