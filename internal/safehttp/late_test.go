package safehttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a dialer to a server that answers each request late.
type pipes struct {
	late time.Duration
	open sync.WaitGroup
}

func (p *pipes) DialContext(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.open.Go(func() {
		defer theirs.Close()
		r, err := http.ReadRequest(bufio.NewReader(theirs))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(p.late)
		_, _ = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	})
	return ours, nil
}

func TestAnswersMayBeAsLateAsTheTimeoutAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout, late time.Duration
		want          string
	}{
		{0, 9 * time.Second, ""},
		{0, 11 * time.Second, OutcomeTimeout},
		{15 * time.Second, 11 * time.Second, OutcomeTimeout},
		{16 * time.Second, 15 * time.Second, ""},
		{2 * time.Minute, 119 * time.Second, ""},
		{2 * time.Minute, 121 * time.Second, OutcomeTimeout},
		{time.Second, 2 * time.Second, OutcomeTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &pipes{late: c.late}
			defer server.open.Wait()
			client := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: server, Timeout: c.timeout})
			_, err := client.Post(t.Context(), Request{URL: parse(t, "http://a.example/"), Body: []byte("{}")})
			if outcome(err) != c.want {
				t.Errorf("timeout %s, answer after %s: Post = %v, want outcome %q", c.timeout, c.late, err, c.want)
			}
		})
	}
}
