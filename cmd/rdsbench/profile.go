package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profile starts the profiles asked for; the function returned ends and writes
// them.
func profile(cpu, mem string) (end func() error, err error) {
	var file *os.File
	if cpu != "" {
		if file, err = os.Create(cpu); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return func() error {
		var err error
		if file != nil {
			pprof.StopCPUProfile()
			err = file.Close()
		}
		if mem != "" {
			runtime.GC() // allocations show up with the collection after them
			f, e := os.Create(mem)
			if e == nil {
				e = errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
			}
			err = errors.Join(err, e)
		}
		return err
	}, nil
}
