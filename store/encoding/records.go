package encoding

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// context is the client's description of a context.
type context struct {
	V            int               `json:"v,omitempty"`
	Name         string            `json:"name,omitempty"`
	Description  string            `json:"description,omitempty"`
	Role         string            `json:"role"`
	Status       a2a.ContextStatus `json:"status,omitempty"`
	Tags         []string          `json:"tags,omitempty"`
	Metadata     map[string]any    `json:"metadata,omitempty"`
	ParentID     string            `json:"parentContextId,omitempty"`
	ReferenceIDs []string          `json:"referenceContextIds,omitempty"`
	Extensions   map[string]any    `json:"extensions,omitempty"`
}

// Context encodes what clients describe of a context.
func Context(c *store.Context) ([]byte, error) {
	data, err := form.Append(nil, &context{
		Name: c.Name, Description: c.Description, Role: c.Role, Status: c.Status, Tags: c.Tags, Metadata: c.Metadata,
		ParentID: c.ParentID, ReferenceIDs: c.ReferenceIDs, Extensions: c.Extensions,
	})
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "context %s cannot be written as JSON", a2a.Quote(c.Key.ID))
	}
	return data, nil
}

// DecodeContext sets what clients describe of c, except its status, and its name and parent if
// c has them. Stores have a column for the status.
func DecodeContext(c *store.Context, data []byte) error {
	var stored context
	err := form.Unmarshal(data, &stored)
	if err == nil {
		err = check(stored.V)
	}
	if err != nil {
		return fmt.Errorf("context %s: %w", c.Key.ID, err)
	}
	c.Name, c.ParentID = cmp.Or(c.Name, stored.Name), cmp.Or(c.ParentID, stored.ParentID)
	c.Description, c.Role, c.Tags, c.Metadata = stored.Description, stored.Role, stored.Tags, stored.Metadata
	c.ReferenceIDs, c.Extensions = stored.ReferenceIDs, stored.Extensions
	return nil
}

// feedback is the content of feedback.
type feedback struct {
	V        int            `json:"v,omitempty"`
	Text     string         `json:"feedback,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Feedback encodes the text and the metadata of feedback.
func Feedback(f *store.Feedback) ([]byte, error) {
	data, err := form.Append(nil, &feedback{Text: f.Text, Metadata: f.Metadata})
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "feedback cannot be written as JSON")
	}
	return data, nil
}

// DecodeFeedback sets the text and the metadata of f.
func DecodeFeedback(f *store.Feedback, data []byte) error {
	var stored feedback
	err := form.Unmarshal(data, &stored)
	f.Text, f.Metadata = stored.Text, stored.Metadata
	if err == nil {
		err = check(stored.V)
	}
	return err
}

// Attempt is the stored form of a [store.DeliveryAttempt], without its task and webhook. At is
// in milliseconds since 1970.
type Attempt struct {
	V        int    `json:"v,omitempty"`
	Seq      int64  `json:"seq"`
	Sequence int64  `json:"sequence"`
	Attempt  int64  `json:"attempt"`
	At       int64  `json:"at"`
	Millis   int64  `json:"ms,omitempty"`
	Status   int64  `json:"status,omitempty"`
	Outcome  string `json:"outcome,omitempty"`
	Address  string `json:"address,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// AttemptRows divides attempts into rows, in the order of their times. The times of the
// attempts of a row are at most span milliseconds apart.
func AttemptRows(all []store.DeliveryAttempt, span int64) (rows [][]Attempt) {
	attempts := make([]Attempt, len(all))
	for i := range all {
		a := &all[i]
		attempts[i] = Attempt{
			Seq: a.Seq, Sequence: a.Sequence, Attempt: int64(a.Attempt), At: Millis(a.At), Millis: a.Duration.Milliseconds(),
			Status: int64(a.Status), Outcome: a.Outcome, Address: a.Address, Detail: a.Detail,
		}
	}
	slices.SortStableFunc(attempts, func(a, b Attempt) int { return cmp.Compare(a.At, b.At) })
	for len(attempts) > 0 {
		n := 1
		for n < len(attempts) && attempts[n].At-attempts[0].At <= span {
			n++
		}
		rows, attempts = append(rows, attempts[:n]), attempts[n:]
	}
	return rows
}

// Value returns the attempt of a webhook.
func (a *Attempt) Value(task store.Key, webhook string) store.DeliveryAttempt {
	return store.DeliveryAttempt{
		Task: task, WebhookID: webhook, Seq: a.Seq, Sequence: a.Sequence, Attempt: int(a.Attempt), At: FromMillis(a.At),
		Duration: time.Duration(a.Millis) * time.Millisecond, Status: int(a.Status), Outcome: a.Outcome, Address: a.Address, Detail: a.Detail,
	}
}

// Attempts encodes the attempts of a row as a JSON array.
func Attempts(attempts []Attempt) ([]byte, error) {
	data, err := form.Append(make([]byte, 0, 160*len(attempts)), &attempts)
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "attempt cannot be written as JSON")
	}
	return data, nil
}

// DecodeAttempts decodes the result of Attempts.
func DecodeAttempts(data []byte) (attempts []Attempt, err error) {
	err = form.Unmarshal(data, &attempts)
	for i := range attempts {
		if err == nil {
			err = check(attempts[i].V)
		}
	}
	return attempts, err
}
