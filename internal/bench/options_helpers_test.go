package bench

import (
	"time"
)

func goodOptions() Options {
	return Options{Paths: 1, Provider: "node", Pin: PinNone, ZeroCopy: "auto", Duration: time.Second, Repeat: 1,
		CRC: CRCOff, Sizes: []int{64}, Reply: 64, Depth: 8, Sockets: 4, Peers: 4}
}
