package auth

import (
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/recent"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

// Rate is a limit of calls. The zero value is no limit.
type Rate struct {
	// PerSecond is the number of calls per second in the long run.
	PerSecond float64
	// Burst is the number of calls at once. Default: PerSecond, at least 1.
	Burst int
}

// Limits bounds the rate of calls of this process; replicas do not share the counts. The zero value has no limits.
type Limits struct {
	// Principal is the limit of each principal, and of the anonymous one.
	Principal Rate
	// Roles are the limits of principals with a role, by its name; the highest limit of a principal's roles replaces
	// Principal.
	Roles map[string]Rate
	// Failures is the limit of requests with missing or invalid credentials from one address. Requests above it
	// are rejected with 429 instead of 401. Default: 10 per second, 100 at once.
	Failures Rate
}

// maxLimiters is the number of principals or addresses that certainly have a count of their own. A flood of other
// principals can only make the process forget a count, which gives its owner a new burst.
const maxLimiters = 50_000

// limiters are the counts of calls by a key.
type limiters struct {
	mu    sync.Mutex
	byKey recent.Map[string, *rate.Limiter]
}

// allow counts a call. It returns 0, or the time after which the next call is allowed.
func (l *limiters) allow(key string, limit Rate, now time.Time) time.Duration {
	if limit.PerSecond <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lim, known := l.byKey.Get(key)
	if !known {
		burst := limit.Burst
		if burst <= 0 {
			burst = max(1, int(math.Ceil(limit.PerSecond)))
		}
		lim = rate.NewLimiter(rate.Limit(limit.PerSecond), burst)
		l.byKey.Max = maxLimiters
		l.byKey.Put(key, lim)
	}
	if lim.AllowN(now, 1) {
		return 0
	}
	r := lim.ReserveN(now, 1)
	defer r.CancelAt(now)
	return r.DelayFrom(now)
}

// limit returns the rejection of a call above the limit of its principal, or nil.
func (a *Auth) limit(c *rpc.Call, caller *a2a.Principal) error {
	limit, found := a.cfg.Limits.Principal, false
	for _, name := range caller.Roles {
		if r, ok := a.cfg.Limits.Roles[name]; ok && (!found || r.PerSecond > limit.PerSecond) {
			limit, found = r, true
		}
	}
	wait := a.calls.allow(caller.ID, limit, a.cfg.Now())
	if wait == 0 {
		return nil
	}
	return tooMany(wait, "%s: the principal exceeds %v calls per second", c.Operation(), limit.PerSecond)
}

// limitFailure returns the error for a request that failed to authenticate with err: err itself, or a rejection if the
// address exceeds its limit.
func (a *Auth) limitFailure(r *http.Request, err error) error {
	if code := a2a.CodeOf(err); code != a2a.CodeUnauthenticated && code != a2a.CodeInvalidSignature && code != a2a.CodeCredentialsExpired {
		return err
	}
	if wait := a.failures.allow(address(r), a.cfg.Limits.Failures, a.cfg.Now()); wait > 0 {
		return tooMany(wait, "too many requests without valid credentials from this address")
	}
	return err
}

// tooMany returns the rejection of a request above a limit.
func tooMany(wait time.Duration, format string, args ...any) error {
	e := a2a.Refusef(a2a.CodeExhausted, "rate", format, args...)
	return &server.Refusal{Err: e, Header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}}}
}

// address returns the address of the client's connection without its port.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
