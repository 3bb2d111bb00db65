package main

import (
	"net/http"
	"net/http/pprof"
)

// profilePath is where net/http/pprof expects to be.
const profilePath = "/debug/pprof/"

// profiles are the handlers of the runtime's profiles. They are for the
// control socket only: a profile tells more than a passer-by should know, and
// costs.
func profiles() map[string]http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(profilePath, pprof.Index)
	mux.HandleFunc(profilePath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(profilePath+"profile", pprof.Profile)
	mux.HandleFunc(profilePath+"symbol", pprof.Symbol)
	mux.HandleFunc(profilePath+"trace", pprof.Trace)
	return map[string]http.Handler{profilePath: mux}
}
