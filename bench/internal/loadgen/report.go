package loadgen

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// errorTexts is the maximum number of distinct error texts in a Report.
const errorTexts = 8

const otherErrors = "other errors"

// Report is the result of a [Run]. Durations in its JSON are in nanoseconds.
type Report struct {
	Scenario     Scenario `json:"scenario"`
	URL          string   `json:"url"`
	Concurrency  int      `json:"concurrency"`
	PayloadBytes int      `json:"payloadBytes"`

	// Requests is the number of requests that started within the window, including failed ones and
	// those that ended later.
	Requests int64 `json:"requests"`
	// Errors is the number of these that failed or got a wrong response.
	Errors int64 `json:"errors"`
	// ErrorTexts are the reasons, most frequent first. Beyond eight different texts, further ones
	// are counted as "other errors".
	ErrorTexts []ErrorCount `json:"errorTexts,omitempty"`
	// Elapsed is the length of the window.
	Elapsed time.Duration `json:"elapsedNs"`
	// PerSecond is the rate of correct responses that arrived within the window.
	PerSecond float64 `json:"perSecond"`
	// Latency is the latency of correct requests.
	Latency Latency `json:"latency"`

	// Calls is the number of HTTP exchanges. Reconnects is the number of calls for which the server
	// had closed the connection, so that a new one was used.
	Calls      int64 `json:"calls"`
	Reconnects int64 `json:"reconnects"`
	// Events is the number of server-sent events.
	Events int64 `json:"events,omitempty"`
	// BytesOut and BytesIn are the bytes on the wire, including headers.
	BytesOut int64 `json:"bytesOut"`
	BytesIn  int64 `json:"bytesIn"`
}

// Latency has quantiles with three significant digits.
type Latency struct {
	P50 time.Duration `json:"p50Ns"`
	P90 time.Duration `json:"p90Ns"`
	P95 time.Duration `json:"p95Ns"`
	P99 time.Duration `json:"p99Ns"`
	Max time.Duration `json:"maxNs"`
}

// ErrorCount is a reason of errors and its number of occurrences.
type ErrorCount struct {
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

// WriteText writes the report as a few lines of text.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, concurrency %d, payload %d B\n", r.Scenario, r.URL, r.Concurrency, r.PayloadBytes)
	fmt.Fprintf(&b, "  rate      %.1f/s over %v\n", r.PerSecond, r.Elapsed.Round(time.Millisecond))
	fmt.Fprintf(&b, "  requests  %d, errors %d, calls %d, reconnects %d", r.Requests, r.Errors, r.Calls, r.Reconnects)
	if r.Events > 0 {
		fmt.Fprintf(&b, ", events %d", r.Events)
	}
	l := r.Latency
	fmt.Fprintf(&b, "\n  latency   p50 %v, p90 %v, p95 %v, p99 %v, max %v\n", short(l.P50), short(l.P90), short(l.P95), short(l.P99), short(l.Max))
	fmt.Fprintf(&b, "  bytes     out %d, in %d\n", r.BytesOut, r.BytesIn)
	for _, e := range r.ErrorTexts {
		fmt.Fprintf(&b, "  error     %d x %s\n", e.Count, e.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// short rounds to three or four digits, the precision of the histogram.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond / 10)
}

// longest is the maximum of a histogram. Longer latencies are recorded as this one.
const longest = 2 * time.Hour

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), 3) }

// tally has the counts of one worker within the window.
type tally struct {
	latency  *hdrhistogram.Histogram // nanoseconds; nil until the first correct answer
	errors   int64
	inWindow int64 // correct responses that arrived before its end
	events   int64
	last     time.Duration    // end of the latest request
	texts    map[string]int64 // nil until the first error
	before   counts           // of the connection, when the window started
}

func (t *tally) record(begin, end time.Duration, inWindow bool, err error) {
	t.last = end
	if err != nil {
		t.errors++
		if t.texts == nil {
			t.texts = map[string]int64{}
		}
		addText(t.texts, clean(err.Error()), 1)
		return
	}
	if t.latency == nil {
		t.latency = newHistogram()
	}
	_ = t.latency.RecordValue(int64(min(end-begin, longest))) // cannot fail up to longest
	if inWindow {
		t.inWindow++
	}
}

func addText(texts map[string]int64, text string, n int64) {
	most := errorTexts
	if _, ok := texts[otherErrors]; ok {
		most++
	}
	if _, known := texts[text]; !known && len(texts) >= most {
		text = otherErrors
	}
	texts[text] += n
}

// clean removes characters that a terminal must not receive from a text of a server.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

func (r *run) report(workers []*worker) Report {
	out := Report{
		Scenario:     r.cfg.Scenario,
		URL:          r.cfg.URL,
		Concurrency:  r.cfg.Concurrency,
		PayloadBytes: r.cfg.PayloadBytes,
	}
	all := newHistogram()
	var inWindow int64
	end := r.from
	texts := map[string]int64{}
	for _, w := range workers {
		t := &w.tally
		if t.last == 0 {
			continue // it started no request within the window
		}
		if t.latency != nil {
			all.Merge(t.latency)
		}
		inWindow += t.inWindow
		end = max(end, t.last)
		out.Errors += t.errors
		out.Events += t.events
		out.Calls += w.wire.counted().calls - t.before.calls
		out.Reconnects += w.wire.counted().reconnects - t.before.reconnects
		out.BytesIn += w.wire.counted().in - t.before.in
		out.BytesOut += w.wire.counted().out - t.before.out
		for text, n := range t.texts {
			addText(texts, text, n)
		}
	}
	out.Requests = all.TotalCount() + out.Errors
	out.Elapsed = min(end, r.until) - r.from
	if out.Elapsed > 0 {
		out.PerSecond = float64(inWindow) / out.Elapsed.Seconds()
	}
	quantile := func(percent float64) time.Duration { return time.Duration(all.ValueAtQuantile(percent)) }
	out.Latency = Latency{P50: quantile(50), P90: quantile(90), P95: quantile(95), P99: quantile(99), Max: time.Duration(all.Max())}
	for text, n := range texts {
		out.ErrorTexts = append(out.ErrorTexts, ErrorCount{Text: text, Count: n})
	}
	slices.SortFunc(out.ErrorTexts, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return out
}
