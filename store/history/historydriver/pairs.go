package historydriver

import (
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
)

// Outline is a message without its content.
type Outline struct {
	Seq       int64
	CreatedAt time.Time
	// Bytes is the size of the body.
	Bytes                  int64
	ToolCalls, ToolResults []string
}

// OutlineOf returns the outline of a message.
func OutlineOf(m *history.Message) Outline {
	return Outline{m.Seq, m.CreatedAt, int64(len(m.Body)), m.ToolCalls, m.ToolResults}
}

// PageBytes is the size of the bodies of a page. The zero value is the size of an empty page.
type PageBytes int64

// Add adds a body. It returns false and adds nothing if the page has another one and would exceed
// [history.MaxPageBytes].
func (b *PageBytes) Add(size int) bool {
	if *b > 0 && int64(*b)+int64(size) > history.MaxPageBytes {
		return false
	}
	*b += PageBytes(size)
	return true
}

// Fit returns the number of messages that fit into a page with their bodies. The page starts with
// the first message or, if newest is set, ends with the last one.
func Fit(messages []Outline, newest bool) int {
	var size PageBytes
	for n := range messages {
		i := n
		if newest {
			i = len(messages) - 1 - n
		}
		if !size.Add(int(messages[i].Bytes)) {
			return n
		}
	}
	return len(messages)
}

// PageRead is the number of messages beyond the limit that [PageSize] needs.
const PageRead = 2 * history.MaxToolSpan

// PageSize returns the number of messages of a page that consists of whole groups of tool calls
// and results. messages are consecutive and in ascending order. The page starts with the first of
// them or, if newest is set, ends with the last one. The caller passes limit + [PageRead] messages,
// and less only if there are no more. If less than limit messages fit (see [Fit]), their number may
// be passed as the limit.
func PageSize(messages []Outline, limit int, newest bool) int {
	fit := Fit(messages, newest)
	limit = min(limit, fit)
	if len(messages) <= limit {
		return len(messages)
	}
	cut := cuts(messages)
	at := func(size int) int {
		if newest {
			return len(messages) - size
		}
		return size
	}
	for size := limit; size > 0; size-- {
		if cut[at(size)] {
			return size
		}
	}
	end := len(messages)
	if end == limit+PageRead {
		end = limit + history.MaxToolSpan // a group that ends here continues in no other message
	}
	for size := limit + 1; size <= min(end, fit); size++ {
		if cut[at(size)] {
			return size
		}
	}
	return limit
}

// Whole reports whether each result of the messages belongs to a call of them, so that no group
// continues before the first. For the newest messages, [PageSize] with their number as the
// limit then returns the limit, whatever precedes them. messages are as for PageSize.
func Whole(messages []Outline) bool {
	calls := make(map[string]bool)
	for i := range messages {
		for _, id := range messages[i].ToolResults {
			if !calls[id] {
				return false
			}
		}
		for _, id := range messages[i].ToolCalls {
			calls[id] = true
		}
	}
	return true
}

// pruneBatch is the maximum number of messages that one transaction of Prune removes.
const pruneBatch = 1000

// PruneRead is the number of the oldest messages that [PruneSize] needs.
const PruneRead = pruneBatch + history.MaxToolSpan

// PruneSize returns the number of messages that the next batch of Prune removes, 0 if the session
// complies with the policy. oldest are up to [PruneRead] of its messages, oldest first; all has the
// totals of the session.
func PruneSize(oldest []Outline, all history.Pruned, p history.Policy) int {
	size := 0
	for ; size < min(len(oldest), pruneBatch); size++ {
		exceeded := p.MaxMessages > 0 && all.Messages > p.MaxMessages || p.MaxBytes > 0 && all.Bytes > p.MaxBytes ||
			oldest[size].CreatedAt.Before(p.CreatedBefore)
		if !exceeded {
			break
		}
		all.Messages--
		all.Bytes -= oldest[size].Bytes
	}
	cut := cuts(oldest)
	for whole := size; whole > 0; whole-- {
		if cut[whole] {
			return whole
		}
	}
	if size == pruneBatch {
		return size
	}
	return 0
}

// cuts reports for each number of first messages whether no group continues after them.
func cuts(messages []Outline) []bool {
	calls := make(map[string]int)          // position of the newest message with a call
	starts := make([]int, len(messages)+1) // groups that start before a position, minus those that end there
	free := make([]bool, len(messages)+1)
	for i := range messages {
		for _, id := range messages[i].ToolResults {
			if call, ok := calls[id]; ok && i-call <= history.MaxToolSpan {
				starts[call+1]++
				starts[i+1]--
			}
		}
		for _, id := range messages[i].ToolCalls {
			calls[id] = i
		}
	}
	open := 0
	for i := range starts {
		open += starts[i]
		free[i] = open == 0
	}
	return free
}
