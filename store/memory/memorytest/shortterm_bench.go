package memorytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var benchText = strings.Repeat("word ", 120)

// BenchShortTerm compares merge patches of states with about 600 bytes with a reference, by one
// caller and by 64 callers, each with a state of its own. The reference replaces the value of the
// caller's row on the same server.
func BenchShortTerm(b *testing.B, open func(b *testing.B) (s memory.ShortTerm, replace func(caller int, value string) error)) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, replace := open(b)
			key := func(caller int) memory.Key {
				return memory.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(caller)}
			}
			for caller := range callers {
				if _, err := s.Set(b.Context(), key(caller), map[string]any{"text": benchText}, 0); err != nil {
					b.Fatal(err)
				}
			}
			suite.Compare(b, suite.Comparison{Callers: callers, Calls: 200 + 30*callers, Reference: func(caller, n int) error {
				return replace(caller, fmt.Sprintf(`{"step":"%08d","text":"%s"}`, n, benchText))
			}, Measured: func(caller, n int) error {
				_, err := s.Update(b.Context(), key(caller), map[string]any{"step": fmt.Sprintf("%08d", n)}, memory.AnyVersion)
				return err
			}})
		})
	}
}
