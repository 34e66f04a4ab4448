package main

import (
	"encoding/json"
	"net/http"
)

// echoHandler is the floor under every Go server that speaks JSON over HTTP:
// net/http with its defaults, json.NewDecoder(body).Decode into an any (so
// maps, slices, strings and float64s), and json.NewEncoder(rw).Encode of that
// any, with Content-Type application/json. No routing, no limits, no logging,
// no checks but that the body is JSON. The value is the same, the bytes are
// not: keys are sorted in the answer, with a newline at the end. One decode and one
// encode with reflection on maps is not the cheapest way to read and write
// JSON, but it is what a plain Go program would do.
func echoHandler() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(body) // fails only if the client has gone
	})
}
