package main

import "time"

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

// UnmarshalText is for the file.
func (w *word) UnmarshalText(b []byte) error {
	*w = word(b)
	return nil
}
