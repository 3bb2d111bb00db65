package daemon

// The locks of structs that have several, for lockorder.
type (
	xrcSessionTurns *xrcSession
	appQueueMu      *appQueue
	appQueueTell    *appQueue
	serviceServerMu *Service
	serviceMu       *Service
	serviceLooking  *Service
)
