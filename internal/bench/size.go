package bench

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rds-go/rds/rds"
)

// ParseSizes reads a list of message sizes in bytes such as "64,1k,1m"; k and
// m are the powers of 1024.
func ParseSizes(list string) ([]int, error) {
	return parseBytes(list, rds.MaxMessage, "the longest RDS message")
}

// ParseBuffers reads "SEND" or "SEND,RECEIVE", the buffers of a TCP connection
// in bytes; 0 leaves one to the kernel.
func ParseBuffers(list string) (Buffers, error) {
	n, err := parseBytes(list, 1<<30, "the largest TCP buffer")
	if err != nil {
		return Buffers{}, err
	}
	switch len(n) {
	case 1:
		return Buffers{Send: n[0]}, nil
	case 2:
		return Buffers{Send: n[0], Receive: n[1]}, nil
	}
	return Buffers{}, fmt.Errorf("%q is more than a send and a receive buffer", list)
}

func parseBytes(list string, most int, what string) ([]int, error) {
	var sizes []int
	for f := range strings.SplitSeq(list, ",") {
		digits, unit := strings.TrimSpace(strings.ToLower(f)), 1
		switch {
		case strings.HasSuffix(digits, "k"):
			digits, unit = digits[:len(digits)-1], 1<<10
		case strings.HasSuffix(digits, "m"):
			digits, unit = digits[:len(digits)-1], 1<<20
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("size %q is no number of bytes", f)
		}
		if n > most/unit {
			return nil, fmt.Errorf("size %s is more than %s, %s", f, FormatSize(most), what)
		}
		sizes = append(sizes, n*unit)
	}
	return sizes, nil
}

// FormatSize writes a number of bytes as people do: 64 B, 8 KiB, 1 MiB.
func FormatSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
