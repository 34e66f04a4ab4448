package cards

import (
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Serve responds with the strict card if the request names A2A 1.0, otherwise with the union
// card.
func (c *Cards) Serve(x *exchange.Exchange) {
	x.Header().Add("Vary", "A2A-Version")
	f := union
	if version := x.Version(); version == "1" || strings.HasPrefix(version, "1.") {
		f = strict
	}
	c.serve(x, f)
}

// ServeStrict responds with the strict card.
func (c *Cards) ServeStrict(x *exchange.Exchange) { c.serve(x, strict) }

func (c *Cards) serve(x *exchange.Exchange, f form) {
	body, err := c.public(f, x.Origin.URL())
	if err != nil { // the signer failed
		x.Log.Error("agent card not signed", "request", x.ID, "error", err)
		http.Error(x, "internal error", http.StatusInternalServerError)
		return
	}
	x.RespondCacheable("public", c.built, body)
}

// ServeKeys responds with the key set of the signer, which must be set.
func (c *Cards) ServeKeys(x *exchange.Exchange) { x.RespondCacheable("public", c.built, c.keys) }
