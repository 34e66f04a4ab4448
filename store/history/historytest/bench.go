package historytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
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

// Reference opens a history and returns with it the reference for the speed of its appends: a
// function that stores a row of BenchBody bytes under the number n on the same server.
type Reference func(b *testing.B) (p history.Provider, store func(caller, n int) error)

// BenchAppend compares appends of one message with a reference, by one caller and by 64 callers,
// which use 64 sessions.
func BenchAppend(b *testing.B, open Reference) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			p, reference := open(b)
			one := benchMessages(1)
			suite.Compare(b, suite.Comparison{Callers: callers, Calls: 200 + 30*callers, Reference: reference, Measured: func(caller, _ int) error {
				k := history.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(caller)}
				_, err := p.Append(b.Context(), k, history.AppendParams{Messages: one, Run: "run"})
				return err
			}})
		})
	}
}

// BenchTail compares reads of the newest 20 messages of a session with the given number of
// messages and of a session with 1,000, plain and with KeepToolPairs.
func BenchTail(b *testing.B, h Harness, large int) {
	p := h.Open(storetest.Wrap(b), time.Now)
	sessions := [2]history.Key{{Owner: "owner", Agent: "agent", Session: "small"}, {Owner: "owner", Agent: "agent", Session: "large"}}
	for i, n := range []int{1000, large} {
		for ; n > 0; n -= history.MaxAppend {
			suite.Call(p.Append(b.Context(), sessions[i], history.AppendParams{Messages: benchMessages(min(n, history.MaxAppend)), Run: "run"})).Must(b, "Append()")
		}
	}
	for name, q := range map[string]history.Query{"plain": history.Tail(20), "tool pairs": whole(history.Tail(20))} {
		read := func(k history.Key) func(int, int) error {
			return func(int, int) error {
				page, err := p.Page(b.Context(), k, q)
				if err == nil && len(page.Messages) != 20 {
					err = fmt.Errorf("page has %d messages", len(page.Messages))
				}
				return err
			}
		}
		b.Run(name, func(b *testing.B) {
			suite.Compare(b, suite.Comparison{Calls: 200, Reference: read(sessions[0]), Measured: read(sessions[1])})
		})
	}
}
