package xrc

// The locks of structs that have several, for lockorder.
type (
	peerMu      *peer
	peerWanting *peer
)
