package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/webhook"
)

// A 2xx response with a body that never ends does not count as delivered, because it is
// incomplete.
func TestDrippingResponseBodyFailsTheAttempt(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, func(c *webhook.Config) {
		c.Timeout, c.Schedule = 200*time.Millisecond, []time.Duration{time.Millisecond, time.Hour}
	})
	r := newReceiver(t)
	var requests atomic.Int64
	dripping := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if requests.Add(1) > 1 {
			http.Redirect(w, req, r.url, http.StatusServiceUnavailable)
			return
		}
		drip := time.NewTicker(20 * time.Millisecond)
		defer drip.Stop()
		for {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-drip.C:
			case <-req.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(dripping.Close)
	task := e.call("message/send", params(message("all"), fmt.Sprintf(`"configuration":{"blocking":true,"pushNotificationConfig":{"id":"w","url":%q}}`, dripping.URL)), as("alice")...).task(t)
	var got string
	await.True(t, "event 1 is attempted again", func() bool {
		got = string(e.call("webhooks/attempts", fmt.Sprintf(`{"taskId":%q}`, task.ID), as("alice")...).Result)
		return strings.Contains(got, `"attempt":2`)
	})
	if strings.Contains(got, "delivered") || !strings.Contains(got, `"attempt":1`) {
		t.Errorf("webhooks/attempts = %s, want event 1 attempted twice and nothing delivered", got)
	}
}
