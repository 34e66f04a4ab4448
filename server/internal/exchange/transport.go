package exchange

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/rpc"
)

// FilesHeader is a header of a request. Its value "links" makes all files above 64 KiB links.
const FilesHeader = "Holdfast-Files"

// OwnerHeader is a header of a request. An operator acts for the owner that it names.
const OwnerHeader = "Holdfast-Owner"

// Headers are the headers that the parts of the server read from a request, in lower case. An
// authenticator may read others.
var Headers = []string{"a2a-version", "a2a-extensions", "x-a2a-extensions", "idempotency-key", "last-event-id", "x-request-id", "holdfast-files", "holdfast-owner"}

// Transport is what a server shares with a transport that has a listener of its own.
type Transport struct {
	Table   *rpc.Table
	Bodies  *Bodies
	Replies *Replies
	Streams *Streams
	// NewExchange returns the exchange of a request. The caller ends it with End.
	NewExchange func(w http.ResponseWriter, r *http.Request) *Exchange
	// Anonymous reports whether there is no authenticator. Then a request needs only [Headers].
	Anonymous bool
	// Authenticate sets the principal of an exchange, or returns the error for a caller who may
	// not use the server. In both cases it sets headers of the response.
	Authenticate func(x *Exchange) error
	// End writes the access log.
	End func(x *Exchange, start time.Time)
	Log *slog.Logger
	// Stopping ends when the server starts to stop. After StopGrace all calls must have ended.
	Stopping  context.Context
	StopGrace time.Duration
	// ReadTimeout is the maximum time to receive a request, IdleTimeout the maximum time of a
	// connection without requests.
	ReadTimeout, IdleTimeout time.Duration
}
