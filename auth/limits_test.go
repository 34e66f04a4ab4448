package auth_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/rpc"
)

func TestCallsAreLimitedByPrincipalAndRole(t *testing.T) {
	t.Parallel()
	c, s := newClock(), inmem.New()
	roles := parseRoles(t, `{"roles":[`+role("viewer", "viewer", "")+","+role("fast", "viewer", "")+`]}`, nil)
	g := start(t, auth.Config{
		Schemes: []auth.Scheme{tokens(t, map[string]a2a.Principal{"a": {ID: "a", Roles: []string{"viewer"}}, "b": {ID: "b", Roles: []string{"viewer"}}, "f": {ID: "f", Roles: []string{"viewer", "fast"}}})},
		Roles:   roles, Now: c.now, Limits: auth.Limits{Principal: auth.Rate{PerSecond: 0.5, Burst: 3}, Roles: map[string]auth.Rate{"fast": {PerSecond: 5, Burst: 5}}},
	}, s)
	list := request(a2a.MethodList, "{}")
	count := func(token string, n int) (allowed int) {
		for range n {
			got := g.do("POST", "/", list, bearer(token))
			if got.status == 200 {
				allowed++
				continue
			}
			if got.reason() != "429 -32052 rate" || got.header.Get("Retry-After") == "" || got.header.Get("Retry-After") == "0" {
				t.Errorf("above the limit = %s %v (%s), want 429 with Retry-After", got.reason(), got.header, got.body)
			}
		}
		return allowed
	}
	if n := count("a", 5); n != 3 {
		t.Errorf("%d calls of a were allowed, want 3", n)
	}
	if n := count("b", 2); n != 2 {
		t.Errorf("%d calls of b were allowed, want 2: the calls of a do not count", n)
	}
	if n := count("f", 9); n != 5 {
		t.Errorf("%d calls of f were allowed, want the 5 of its role", n)
	}
	c.at.Add(2)
	if n := count("a", 3); n != 1 {
		t.Errorf("%d calls of a were allowed 2 s later, want 1", n)
	}
	c.at.Add(100)
	batch := g.do("POST", "/", "["+strings.Repeat(list+",", 4)+list+"]", bearer("a"))
	if n := strings.Count(batch.body, "-32052"); n != 2 {
		t.Errorf("a batch of 5 calls = %s, want 2 above the limit", batch.body)
	}
}

func TestFailuresAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := start(t, auth.Config{Schemes: []auth.Scheme{headerScheme{"A"}}, Now: c.now, Limits: auth.Limits{Failures: auth.Rate{PerSecond: 1, Burst: 4}}}, inmem.New())
	statuses := make(map[string]int)
	for i := range 12 {
		h := http.Header{"A": {"wrong"}}
		if i%2 == 0 {
			h = nil
		}
		statuses[g.send(h).reason()]++
		if got := g.send(http.Header{"A": {"a"}}); got.status != 200 {
			t.Errorf("valid credentials from the same address = HTTP %d %s, want 200", got.status, got.body)
		}
	}
	if got, want := fmt.Sprint(statuses), "map[401 -32010 invalid_token:2 401 -32010 missing:2 429 -32052 rate:8]"; got != want {
		t.Errorf("responses = %s, want %s", got, want)
	}
	if n := strings.Count(g.log.String(), "outcome=failed"); n != 4 {
		t.Errorf("the log has %d entries of failures, want 4:\n%s", n, g.log)
	}
	if log := g.log.String(); !strings.Contains(log, "reason=invalid_token") || !strings.Contains(log, "address=127.0.0.1") || !strings.Contains(log, `operation="POST /"`) {
		t.Errorf("the log lacks reason, address or operation:\n%s", log)
	}
}

// Attack 25: principals without end need bounded memory.
func TestAttack25LimitsNeedBoundedMemory(t *testing.T) {
	t.Parallel()
	a, err := auth.New(auth.Config{Schemes: []auth.Scheme{headerScheme{"A"}}, Now: newClock().now, Limits: auth.Limits{Principal: auth.Rate{PerSecond: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := a2a.MethodByName(a2a.MethodGet)
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range 1_000_000 {
		if err := a.Authorize(t.Context(), &rpc.Call{Method: &m, Principal: a2a.Principal{ID: fmt.Sprint("principal ", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if used := int64(heap()) - int64(before); used > 64<<20 {
		t.Errorf("a million principals need %d MiB, want at most 64", used>>20)
	}
	runtime.KeepAlive(a)
}
