package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// pacer sends blocking messages at a fixed rate, independent of the server. Each message has a
// scheduled time, from which its latency counts, also if all connections were busy then.
type pacer struct {
	url         string
	perSecond   float64
	connections int
	payload     int
	warmUp      time.Duration
	duration    time.Duration
}

func (p pacer) run(ctx context.Context, m *meter) (sample, error) {
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: p.connections, MaxConnsPerHost: p.connections},
		Timeout:   loadgen.DefaultTimeout,
	}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var took []time.Duration
	var inWindow, failed int64
	why := ""
	started := time.Now()
	from, until := started.Add(p.warmUp), started.Add(p.warmUp+p.duration)
	interval := time.Duration(float64(time.Second) / p.perSecond)
	series := fmt.Sprintf("paced-%d", started.UnixNano())
	var wg sync.WaitGroup
	wg.Go(func() {
		if sleepUntil(ctx, from) {
			m.start(ctx)
		}
	})
	for worker := range p.connections {
		wg.Go(func() {
			for n := worker; ; n += p.connections {
				due := started.Add(time.Duration(n) * interval)
				if !due.Before(until) || !sleepUntil(ctx, due) {
					return
				}
				err := p.send(ctx, client, fmt.Sprintf("%s-%d", series, n))
				end := time.Now()
				if due.Before(from) || ctx.Err() != nil {
					continue
				}
				mu.Lock()
				if err != nil {
					failed, why = failed+1, err.Error()
				} else {
					took = append(took, end.Sub(due))
				}
				if err == nil && end.Before(until) {
					inWindow++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return sample{}, context.Cause(ctx)
	}
	if len(took) == 0 {
		return sample{}, fmt.Errorf("no message was answered: %s", why)
	}
	report := loadgen.Report{
		Scenario: loadgen.Send, URL: p.url, Concurrency: p.connections, PayloadBytes: p.payload,
		Requests: int64(len(took)) + failed, Errors: failed, Elapsed: p.duration,
		PerSecond: float64(inWindow) / p.duration.Seconds(), Latency: quantiles(took),
	}
	if failed > 0 {
		report.ErrorTexts = []loadgen.ErrorCount{{Text: why, Count: failed}}
	}
	out := sample{Report: report}
	return out, m.end(ctx, &out)
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p pacer) send(ctx context.Context, client *http.Client, id string) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"message/send","params":{"message":{"kind":"message","messageId":%q,"role":"user",`+
		`"parts":[{"kind":"text","text":%q}]},"configuration":{"blocking":true}}}`, id, id, strings.Repeat("x", p.payload))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(`"completed"`)) {
		return fmt.Errorf("HTTP %d: no completed task: %.200s", resp.StatusCode, text)
	}
	return nil
}
