//go:build invariants && amd64

package lockorder

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/rds-go/rds/docs"
)

// leaf is the rank of locks behind which no other is taken but one that is last, which is taken under any other.
const (
	leaf = math.MaxInt - 1
	last = math.MaxInt
)

// ranks are those of docs/LOCKING.md, by the name of the lock.
var ranks = func() map[string]int {
	ranks, err := parse(docs.Locking)
	if err != nil {
		panic(err)
	}
	return ranks
}()

var (
	row  = regexp.MustCompile(`^\| *(\d+|leaf|last) *\|([^|]*)\|`)
	name = regexp.MustCompile("`([^`]*)`")
)

// parse reads the rows of the page's tables: "| 3 | `node.Node.Mu`, `driver.Driver.mu` | ...".
func parse(page string) (map[string]int, error) {
	ranks := make(map[string]int)
	for line := range strings.Lines(page) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rank := leaf
		switch m[1] {
		case "leaf":
		case "last":
			rank = last
		default:
			rank, _ = strconv.Atoi(m[1])
		}
		for _, n := range name.FindAllStringSubmatch(m[2], -1) {
			if _, twice := ranks[n[1]]; twice {
				return nil, fmt.Errorf("docs/LOCKING.md has %s twice", n[1])
			}
			ranks[n[1]] = rank
		}
	}
	return ranks, nil
}
