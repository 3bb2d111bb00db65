package iwarp

// The locks of structs that have several, for lockorder.
type (
	srqUsing *SRQ
	srqMu    *SRQ
)
