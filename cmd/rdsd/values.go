package main

import (
	"time"

	"github.com/rds-go/rds/rds"
)

// duration is a time.Duration written as time.ParseDuration reads it. From a
// file anything is taken, so that checks can name all that are wrong.
type duration struct {
	time.Duration
	bad string // text in the file that is not a duration; empty: none
}

// UnmarshalText is for the file, Set and Type are for the flag.
func (d *duration) UnmarshalText(b []byte) error {
	*d = duration{}
	if err := d.Set(string(b)); err != nil {
		d.bad = string(b)
	}
	return nil
}

func (d *duration) Set(s string) (err error) {
	d.Duration, err = time.ParseDuration(s)
	return err
}

func (d *duration) Type() string { return "duration" }

// word is a value that may be written as a string or as a number: a mode, a
// port, a user. Checks say what it should have been.
type word string

// Values of xrc.crc.
const (
	crcAuto = "auto"
	crcOn   = "on"
	crcOff  = "off"
)

// crcs are the values of xrc.crc: the first three, and those of earlier versions.
var crcs = map[word]rds.CRC{crcAuto: rds.CRCAuto, crcOn: rds.CRCOn, crcOff: rds.CRCOff, "true": rds.CRCOn, "false": rds.CRCOff}

// String, Set and Type are for a flag.
func (w *word) String() string { return string(*w) }

func (w *word) Set(s string) error {
	*w = word(s)
	return nil
}

func (w *word) Type() string { return "string" }

// UnmarshalText is for the file.
func (w *word) UnmarshalText(b []byte) error {
	*w = word(b)
	return nil
}
