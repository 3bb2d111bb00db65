package main

import (
	"bytes"
	"fmt"
	"os"
	"unicode/utf8"
)

// output is where rounds go: a file, in which they follow each other, or a terminal's screen,
// which each round redraws in place.
type output struct {
	file   *os.File
	screen bool
	drawn  bool
}

// Control sequences of terminals (ECMA-48).
const (
	home      = "\x1b[H"
	clearLine = "\x1b[K" // clears from the cursor to the end of the line
	clearRest = "\x1b[J" // clears from the cursor to the end of the screen
	clearAll  = "\x1b[2J"
)

// show writes a round at once, so that a screen does not flicker.
func (o *output) show(round []byte) error {
	if o.screen {
		columns, rows := size(o.file)
		round = draw(round, columns, rows)
		if !o.drawn {
			o.drawn = true
			round = append([]byte(clearAll), round...)
		}
	}
	_, err := o.file.Write(round)
	return err
}

// draw writes lines over what is on a screen of that size. What does not fit is cut off: a
// longer line would wrap and a longer page scroll, and the next round would be elsewhere. No
// size, 0, is one that is not known.
func draw(round []byte, columns, rows int) []byte {
	lines := bytes.Split(bytes.TrimSuffix(round, []byte("\n")), []byte("\n"))
	left := 0
	if rows > 1 && len(lines) > rows-1 { // the cursor stands on the last row
		left = len(lines) - (rows - 2)
		lines = lines[:rows-2]
	}
	var b bytes.Buffer
	b.WriteString(home)
	for _, line := range lines {
		for n := 0; len(line) > 0 && (columns == 0 || n < columns); n++ {
			_, size := utf8.DecodeRune(line)
			b.Write(line[:size])
			line = line[size:]
		}
		b.WriteString(clearLine + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "(%d more lines)%s\n", left, clearLine)
	}
	b.WriteString(clearRest)
	return b.Bytes()
}
