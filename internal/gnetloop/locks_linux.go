package gnetloop

// The locks of structs that have several, for lockorder.
type (
	engineSharing *Engine
	engineMu      *Engine
)
