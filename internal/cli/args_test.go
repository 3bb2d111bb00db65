package cli

import (
	"errors"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestGoodArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, good []string
		wrong      string // all errors, one a line
	}{
		{[]string{"--n", "1", "--b", "-n2", "x", "--list=a,b"}, []string{"--n", "1", "--b", "-n2", "x", "--list=a,b"}, ""},
		{[]string{"--help", "--version", "-h"}, []string{"--help", "--version", "-h"}, ""},
		{[]string{"--n", "one", "--nn", "3", "--b=maybe", "--x=5", "--n", "4", "y", "-z"}, []string{"--n", "4", "y"},
			`invalid argument "one" for "-n, --n" flag: strconv.ParseInt: parsing "one": invalid syntax
unknown flag: --nn
invalid argument "maybe" for "--b" flag: strconv.ParseBool: parsing "maybe": invalid syntax
unknown flag: --x
unknown shorthand flag: 'z' in -z`},
		{[]string{"--n"}, nil, "flag needs an argument: --n"},
		{[]string{"--what", "--b", "--", "--n"}, []string{"--b", "--", "--n"}, "unknown flag: --what"},
	} {
		cmd := &cobra.Command{Use: "tool"}
		f := cmd.Flags()
		f.IntP("n", "n", 0, "")
		f.Bool("b", false, "")
		f.StringSlice("list", nil, "")
		good, wrong := GoodArgs(cmd, c.args)
		text := ""
		if err := errors.Join(wrong...); err != nil {
			text = err.Error()
		}
		if !slices.Equal(good, c.good) || text != c.wrong {
			t.Errorf("%q: %q, %s", c.args, good, text)
		}
	}
}
