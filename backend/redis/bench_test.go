//go:build services

package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// rounds is the number of times that a benchmark measures a store and its reference in turn.
const rounds = 7

// compareWith measures operations per second of a store and of the reference in turn, and reports the
// medians and their ratio. Each function runs until the time is over and returns its number of
// operations.
func compareWith(b *testing.B, ours, reference func(ctx context.Context) int64) {
	b.Helper()
	const round = 400 * time.Millisecond
	var rates [2][]float64
	for b.Loop() {
		for range rounds {
			for i, f := range []func(context.Context) int64{ours, reference} {
				ctx, cancel := context.WithTimeout(bg, round)
				began := time.Now()
				n := f(ctx)
				rates[i] = append(rates[i], float64(n)/time.Since(began).Seconds())
				cancel()
			}
		}
	}
	slices.Sort(rates[0])
	slices.Sort(rates[1])
	median := len(rates[0]) / 2
	b.ReportMetric(rates[0][median], "ops/s")
	b.ReportMetric(rates[1][median], "reference/s")
	b.ReportMetric(rates[0][median]/rates[1][median], "ratio")
	b.ReportMetric(0, "ns/op")
}

// callers runs f in a number of goroutines until the time is over, and returns the number of calls.
func callers(b *testing.B, ctx context.Context, n int, f func(caller int) error) int64 {
	var calls atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := f(i); err != nil {
					b.Errorf("call = %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	return calls.Load()
}

var benchBody = `{"text":"` + strings.Repeat("word ", historytest.BenchBody/5)[:historytest.BenchBody-len(`{"text":""}`)] + `"}`

func benchMessages(n int) []history.Message {
	all := make([]history.Message, n)
	for i := range all {
		all[i] = history.Message{Role: "user", Body: []byte(benchBody)}
	}
	return all
}

var durability = map[string][]string{
	"aof=no":     nil,
	"aof=always": {"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"},
}

// BenchmarkHistorySpeed compares appends with RPUSH of the same bodies: of one caller, of 64 callers
// with pipelines of 64 commands, and of 100 messages at once with pipelines of 100 commands.
func BenchmarkHistorySpeed(b *testing.B) {
	for name, settings := range durability {
		s := startServer(b, settings...)
		c := s.client(b)
		pushes := func(n int) func() error {
			return func() error {
				pipe := c.Pipeline()
				for i := range n {
					pipe.RPush(bg, fmt.Sprint("list", i), benchBody)
				}
				_, err := pipe.Exec(bg)
				return err
			}
		}
		for _, test := range []struct {
			name              string
			callers, messages int
			reference         func(ctx context.Context) int64
		}{
			{"callers=1", 1, 1, func(ctx context.Context) int64 {
				return callers(b, ctx, 1, func(int) error { return c.RPush(bg, "list", benchBody).Err() })
			}},
			{"callers=64", 64, 1, func(ctx context.Context) int64 {
				return 64 * callers(b, ctx, 1, func(int) error { return pushes(64)() })
			}},
			{"messages=100", 1, 100, func(ctx context.Context) int64 {
				return 100 * callers(b, ctx, 1, func(int) error { return pushes(100)() })
			}},
		} {
			b.Run(name+"/"+test.name, func(b *testing.B) {
				h := open(b, Config{URL: s.url()}).History()
				messages := benchMessages(test.messages)
				compareWith(b, func(ctx context.Context) int64 {
					return int64(test.messages) * callers(b, ctx, test.callers, func(i int) error {
						_, err := h.Append(bg, history.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(i)}, history.AppendParams{Messages: messages, Run: "run"})
						return err
					})
				}, test.reference)
				must(b, c.FlushAll(bg).Err())
			})
		}
	}
}

func BenchmarkTailSpeed(b *testing.B) {
	historytest.BenchTail(b, historyHarness(startServer(b).url()), 1_000_000)
}

// BenchmarkStateSpeed compares patches of a state with HSET of the same values: of one caller, and of
// 64 callers with pipelines of 64 commands.
func BenchmarkStateSpeed(b *testing.B) {
	for name, settings := range durability {
		s := startServer(b, settings...)
		c := s.client(b)
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, n), func(b *testing.B) {
				states, err := open(b, Config{URL: s.url()}).ShortTerm(memory.ShortTermConfig{})
				must(b, err)
				var counter atomic.Int64
				compareWith(b, func(ctx context.Context) int64 {
					return callers(b, ctx, n, func(i int) error {
						patch := map[string]any{"step": counter.Add(1), "cart": map[string]any{"items": []any{"a", "b"}, "note": "gift"}}
						_, err := states.Update(bg, memory.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(i)}, patch, memory.AnyVersion)
						return err
					})
				}, func(ctx context.Context) int64 {
					return int64(n) * callers(b, ctx, 1, func(int) error {
						pipe := c.Pipeline()
						for i := range n {
							pipe.HSet(bg, fmt.Sprint("hash", i), "step", counter.Add(1), "cart", `{"items":["a","b"],"note":"gift"}`)
						}
						_, err := pipe.Exec(bg)
						return err
					})
				})
			})
		}
	}
}
