package mr

// Fault is the outcome of a check: None, or the first reason to refuse in the
// order of the constants. It is an error, but None must not be returned as one:
// use Err.
type Fault uint8

// The faults, in the order in which they are looked for.
const (
	None        Fault = iota
	NoRegion          // no region ever had this index
	StaleKey          // key of another version of the base
	Revoked           // region was freed, revoked or spent
	WrongDomain       // region of another protection domain
	WrongPeer         // region for another destination
	NoRight           // a right that is needed is missing
	Wrap              // address and length exceed 64 bits
	OutOfBounds       // access is not within the region
	Misaligned        // an atomic operation on anything but 8 aligned bytes
	Spent             // use-once region that another operation has taken
	Unseen            // the peer is not known to have the key, and was not looked for (Config.PeerLookUps)
	Denied            // the key that a peer is not known to have is no good, for whatever reason
	Held              // Revoke only: the key is dead, but a stuck reader may still use the memory
	faults            // number of faults
)

var faultText = [faults]string{
	None:        "mr: no fault",
	NoRegion:    "mr: no such region",
	StaleKey:    "mr: stale key",
	Revoked:     "mr: key was revoked",
	WrongDomain: "mr: region of another protection domain",
	WrongPeer:   "mr: region for another peer",
	NoRight:     "mr: right missing",
	Wrap:        "mr: address wraps around",
	OutOfBounds: "mr: out of bounds",
	Misaligned:  "mr: misaligned",
	Spent:       "mr: region was used once",
	Unseen:      "mr: key of a peer that tries too many",
	Denied:      "mr: access denied",
	Held:        "mr: held by a stuck reader",
}

// Faults are all reasons to refuse, in the order in which they are looked for.
func Faults() []Fault {
	all := make([]Fault, 0, faults-1)
	for f := NoRegion; f < faults; f++ {
		all = append(all, f)
	}
	return all
}

// Error says what is wrong.
func (f Fault) Error() string {
	if f >= faults {
		return "mr: unknown fault"
	}
	return faultText[f]
}

// faultErrors are boxed once, so that Err does not allocate.
var faultErrors = func() (e [faults]error) {
	for f := NoRegion; f < faults; f++ {
		e[f] = f
	}
	return e
}()

// Err is nil for None and the fault itself for all others. It does not allocate.
func (f Fault) Err() error {
	if f >= faults {
		return f
	}
	return faultErrors[f]
}
