package historytest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// BenchBody is the size in bytes of the bodies that benchmarks append.
const BenchBody = 649

// benchMessages returns n messages of BenchBody bytes.
func benchMessages(n int) []history.Message {
	all := make([]history.Message, n)
	for i := range all {
		all[i] = message(strings.Repeat("word ", BenchBody/5)[:BenchBody-len(`{"text":""}`)])
	}
	return all
}

// BenchAppend measures appends of one message by one caller and by 64 callers, which use 64
// sessions.
func BenchAppend(b *testing.B, h Harness) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			p := h.Open(storetest.Wrap(b), time.Now)
			one := benchMessages(1)
			var next atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					k := history.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(i)}
					for next.Add(1) <= int64(b.N) {
						if _, err := p.Append(b.Context(), k, history.AppendParams{Messages: one, Run: "run"}); err != nil {
							b.Errorf("Append() = %v", err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchTail measures reads of the newest 20 messages of a session with 1,000 messages and of one
// with the given number, in turn. It reports both times and their ratio, plain and with
// KeepToolPairs.
func BenchTail(b *testing.B, h Harness, large int) {
	p := h.Open(storetest.Wrap(b), time.Now)
	sessions := [2]history.Key{{Owner: "owner", Agent: "agent", Session: "small"}, {Owner: "owner", Agent: "agent", Session: "large"}}
	for i, n := range []int{1000, large} {
		for ; n > 0; n -= history.MaxAppend {
			if _, err := p.Append(b.Context(), sessions[i], history.AppendParams{Messages: benchMessages(min(n, history.MaxAppend)), Run: "run"}); err != nil {
				b.Fatalf("Append() = %v", err)
			}
		}
	}
	for name, q := range map[string]history.Query{"plain": history.Tail(20), "tool pairs": whole(history.Tail(20))} {
		b.Run(name, func(b *testing.B) {
			var spent [2]time.Duration
			for b.Loop() {
				for i, k := range sessions {
					began := time.Now()
					if page, err := p.Page(b.Context(), k, q); err != nil || len(page.Messages) != 20 {
						b.Fatalf("Page() = %d messages, %v", len(page.Messages), err)
					}
					spent[i] += time.Since(began)
				}
			}
			b.ReportMetric(float64(spent[0].Nanoseconds())/float64(b.N), "ns/1k-tail")
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(b.N), fmt.Sprintf("ns/%dk-tail", large/1000))
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
		})
	}
}
