package historytest

import (
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Suite tests the transcripts of a backend.
var Suite = storetest.Suite{Name: "history", Run: func(t storetest.T, h storetest.Harness) { RunOn(t, Of(h)) }}

// Of returns the harness of the transcripts of a backend.
func Of(h storetest.Harness) Harness {
	p := &storetest.Parts[history.Provider, func() time.Time]{Harness: h, Of: func(_ storetest.T, s store.Store, _ func() time.Time) history.Provider {
		return historysql.Of(s)
	}}
	out := Harness{Open: p.Open, OwnClock: true}
	if h.Reopen != nil {
		out.Reopen = p.Reopen
	}
	return out
}
