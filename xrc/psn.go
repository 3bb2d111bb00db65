package xrc

// Packet sequence numbers have 24 bits and wrap around.

// psnDiff is how far a lies behind b: 0 to 1<<24-1.
func psnDiff(a, b uint32) uint32 { return (b - a) & maxNumber }

// psnWithin tells whether psn is one of first, first+1 .. last. A window is at
// most half of the numbers.
func psnWithin(first, psn, last uint32) bool {
	span := psnDiff(first, last)
	return span <= maxNumber/2 && psnDiff(first, psn) <= span
}
