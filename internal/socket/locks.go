package socket

// The locks of structs that have several, for lockorder.
type (
	queueTakeMu *Queue
	queueMu     *Queue
)
