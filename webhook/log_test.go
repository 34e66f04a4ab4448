package webhook

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Operators search the log for the cause of missing events.
func TestFailedDeliveriesAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		answer int
		want   []string // all in one line
		lines  int
	}{
		"dead letters": {401, []string{"level=WARN", "dead letter", "task=t", "endpoint=https://endpoint-0.example.com:443", "event=1", `reason="the receiver answered 401"`}, 1},
		"retried":      {503, []string{"level=INFO", "will be retried", "task=t", "event=1", `reason="the receiver answered 503"`}, 1},
		"delivered":    {200, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var logged await.Buffer
			inBubble(t, plan{config: func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) }}, func(w *world) {
				var down atomic.Bool
				down.Store(true)
				w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
					if down.Load() {
						return status(c.answer)
					}
					return status(200)
				})
				w.newTask("alice", "t", 0, 20)
				time.Sleep(10 * time.Second)
				down.Store(false)
				w.drain(time.Hour)
				about := ""
				for line := range strings.Lines(logged.String()) {
					if strings.Contains(line, "was not delivered") {
						about += line
					}
				}
				w.equal("matching lines", strings.Count(about, "\n"), c.lines)
				for _, want := range c.want {
					if !strings.Contains(about, want) {
						w.t.Errorf("log = %s, want %s", about, want)
					}
				}
				if strings.Contains(logged.String(), "hush") {
					w.t.Errorf("log = %s, want no secrets", &logged)
				}
			})
		})
	}
}

func TestLogsHaveNoSecretsAndFewLines(t *testing.T) {
	var logged await.Buffer
	inBubble(t, plan{config: func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) }}, func(w *world) {
		w.setDown("endpoint-0.example.com", true)
		task := store.Key{Owner: "alice", ID: "t"}
		hook := w.newHook(task, 0)
		data, err := sealer(nil).encode(settings{URL: "https://endpoint-0.example.com/hush-path?hook=" + hook.ID, Secrets: &secrets{Token: "hush-token"}}, task, hook.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		hook.Data = data
		w.create(task, hook)
		w.drain(time.Hour)
		text := logged.String()
		if strings.Contains(text, "hush") {
			w.t.Errorf("log = %s, want no secrets", text)
		}
		w.equal("lines about the endpoint", strings.Count(text, "webhook endpoint is failing"), 1)
		w.equal("lines about the lane", strings.Count(text, "webhook parked"), 1)
		if lines := strings.Count(text, "\n"); lines > 4 {
			w.t.Errorf("%d lines, want few: %s", lines, text)
		}
	})
}
