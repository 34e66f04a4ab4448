package main

import (
	"encoding/json"
	"net/http"
)

// echoHandler is the baseline for Go servers that speak JSON over HTTP: net/http with its defaults
// decodes the body with encoding/json into an any, and encodes that value as the response. There is
// no routing, no limit, no log and no validation. The response has the value of the request, but
// not the same bytes: its keys are sorted and it ends with a line break. Faster ways to read and
// write JSON exist, but a simple Go program would use this one.
func echoHandler() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(body) // fails only if the client has disconnected
	})
}
