package historydriver

import (
	"slices"

	"github.com/holdfast-dev/holdfast/store/history"
)

// CopyAppend returns params that share no memory with p that can change.
func CopyAppend(p history.AppendParams) history.AppendParams {
	if p.Expected != nil {
		expected := *p.Expected
		p.Expected = &expected
	}
	p.Messages = slices.Clone(p.Messages)
	for i := range p.Messages {
		m := &p.Messages[i]
		m.Body, m.ToolCalls, m.ToolResults = slices.Clone(m.Body), slices.Clone(m.ToolCalls), slices.Clone(m.ToolResults)
	}
	return p
}

// Batches calls f with parts of messages. The messages of a part have the same run and
// consecutive sequences.
func Batches(messages []history.Message, f func(part []history.Message) error) error {
	for len(messages) > 0 {
		n := 1
		for n < len(messages) && messages[n].Run == messages[0].Run && messages[n].Seq == messages[n-1].Seq+1 {
			n++
		}
		if err := f(messages[:n]); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}
