// Package lint holds house rules that a compiler does not check, as tests over
// the source tree of this module: which package may import which, where the
// clock and the system may be touched, how long a file may be, what tests must
// not do.
//
// There is no code here but tests. The rules read the sources of all systems
// and build tags; nested modules, testdata and hidden directories are left
// out. Each rule is also run over a small made-up tree that breaks it.
package lint
