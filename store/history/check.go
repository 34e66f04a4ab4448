package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Limits. Sizes are in bytes.
const (
	// MaxName limits owners, agents, sessions, runs, idempotency keys and ids of tool calls.
	MaxName = 512
	MaxRole = 64
	MaxBody = 1 << 20
	// MaxToolIDs limits the tool calls and the tool results of a message.
	MaxToolIDs = 128
	// MaxAppend and MaxAppendBytes limit the messages of one append.
	MaxAppend      = 1000
	MaxAppendBytes = 8 << 20
	// DefaultPage and MaxPage are numbers of results per page.
	DefaultPage = 100
	MaxPage     = 1000
	// MaxPageBytes limits the bodies of a page in total. A page ends before the message that exceeds
	// it, and reports that more follow.
	MaxPageBytes = 8 << 20
	// MaxTTL limits the time until a session expires.
	MaxTTL = 100 * 365 * 24 * time.Hour
)

func invalid(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "history: "+format, args...)
}

// nameRule returns the rule that a name breaks, or "". An empty name breaks none.
func nameRule(name string, limit int) string {
	switch {
	case len(name) > limit:
		return fmt.Sprintf("has %d bytes, limit is %d", len(name), limit)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "must be UTF-8 without NUL"
	}
	return ""
}

func checkOptional(field, name string) error {
	if rule := nameRule(name, MaxName); rule != "" {
		return invalid("%s: %s", field, rule)
	}
	return nil
}

func checkName(field, name string) error {
	if name == "" {
		return invalid("%s: must not be empty", field)
	}
	return checkOptional(field, name)
}

// Check returns an error if k is not a valid key.
func (k Key) Check() error {
	if err := checkName("owner", k.Owner); err != nil {
		return err
	}
	if err := checkName("agent", k.Agent); err != nil {
		return err
	}
	return checkName("session", k.Session)
}

// Check returns an error if the key or the params are invalid.
func (p *AppendParams) Check(k Key) error {
	if err := k.Check(); err != nil {
		return err
	}
	if err := checkOptional("run", p.Run); err != nil {
		return err
	}
	if err := checkOptional("idempotency key", p.IdempotencyKey); err != nil {
		return err
	}
	switch {
	case p.Fence < 0:
		return invalid("fence: is %d, want at least 0", p.Fence)
	case p.Fence > 0 && p.Run == "":
		return invalid("fence: needs a run")
	case p.Expected != nil && *p.Expected < 0:
		return invalid("expected sequence: is %d, want at least 0", *p.Expected)
	case p.TTL < NoTTL || p.TTL > 0 && p.TTL < time.Millisecond || p.TTL > MaxTTL:
		return invalid("TTL: is %v, want 1ms to %v", p.TTL, MaxTTL)
	case len(p.Messages) == 0 || len(p.Messages) > MaxAppend:
		return invalid("messages: are %d, want 1 to %d", len(p.Messages), MaxAppend)
	}
	total := 0
	for i := range p.Messages {
		if err := p.Messages[i].check(i); err != nil {
			return err
		}
		if total += len(p.Messages[i].Body); total > MaxAppendBytes {
			return invalid("messages: bodies have more than %d bytes in total", MaxAppendBytes)
		}
	}
	return nil
}

// check checks message i of an append.
func (m *Message) check(i int) error {
	switch {
	case len(m.Body) > MaxBody:
		return invalid("message %d: body: has %d bytes, limit is %d", i, len(m.Body), MaxBody)
	case !utf8.Valid(m.Body) || !json.Valid(m.Body):
		return invalid("message %d: body: must be JSON in UTF-8", i)
	case !m.CreatedAt.IsZero() && (m.CreatedAt.Year() < 1 || m.CreatedAt.Year() > 9999):
		return invalid("message %d: creation time: year must be 1 to 9999", i)
	}
	if rule := nameRule(m.Role, MaxRole); rule != "" {
		return invalid("message %d: role: %s", i, rule)
	}
	if rule := idsRule(m.ToolCalls); rule != "" {
		return invalid("message %d: tool calls: %s", i, rule)
	}
	if rule := idsRule(m.ToolResults); rule != "" {
		return invalid("message %d: tool results: %s", i, rule)
	}
	return nil
}

// idsRule returns the rule that ids of tool calls break, or "".
func idsRule(ids []string) string {
	if len(ids) > MaxToolIDs {
		return fmt.Sprintf("are %d ids, limit is %d", len(ids), MaxToolIDs)
	}
	for _, id := range ids {
		if id == "" {
			return "an id must not be empty"
		}
		if rule := nameRule(id, MaxName); rule != "" {
			return "an id " + rule
		}
	}
	return ""
}

// CheckRun returns an error if the params of ClearRun are invalid.
func CheckRun(k Key, run string, fence int64) error {
	if err := k.Check(); err != nil {
		return err
	}
	if fence < 0 {
		return invalid("fence: is %d, want at least 0", fence)
	}
	return checkName("run", run)
}

// CheckRange returns an error if the params of Messages are invalid.
func CheckRange(k Key, limit, offset int) error {
	switch {
	case limit < 0:
		return invalid("limit: is %d, want at least 0", limit)
	case offset < 0:
		return invalid("offset: is %d, want at least 0", offset)
	}
	return k.Check()
}

// CheckExpire returns an error if the limit of Expire is invalid.
func CheckExpire(limit int) error {
	if limit < 1 {
		return invalid("limit: is %d, want at least 1", limit)
	}
	return nil
}

// CheckRewind returns an error if the params of Rewind are invalid.
func CheckRewind(k Key, seq int64) error {
	if seq < 0 {
		return invalid("sequence: is %d, want at least 0", seq)
	}
	return k.Check()
}

// Complete checks a query and sets its default limit.
func (q *Query) Complete(k Key) error {
	if q.After < 0 || q.Before < 0 {
		return invalid("cursor: is %d, want at least 0", min(q.After, q.Before))
	}
	if err := completeLimit(&q.Limit); err != nil {
		return err
	}
	return k.Check()
}

func completeLimit(limit *int) error {
	if *limit < 0 || *limit > MaxPage {
		return invalid("limit: is %d, want 0 to %d", *limit, MaxPage)
	}
	if *limit == 0 {
		*limit = DefaultPage
	}
	return nil
}

// Check returns an error if the params are invalid.
func (p *ForkParams) Check() error {
	if err := p.From.Check(); err != nil {
		return err
	}
	if err := p.To.Check(); err != nil {
		return err
	}
	switch {
	case p.From.Owner != p.To.Owner:
		return invalid("fork: the new session must have the same owner")
	case p.Through < 0:
		return invalid("fork: last sequence is %d, want at least 0", p.Through)
	case p.TTL < 0 || p.TTL > 0 && p.TTL < time.Millisecond || p.TTL > MaxTTL:
		return invalid("TTL: is %v, want 0 or 1ms to %v", p.TTL, MaxTTL)
	}
	return nil
}

// Check returns an error if the key or the policy is invalid.
func (p Policy) Check(k Key) error {
	if p.MaxMessages < 0 || p.MaxBytes < 0 {
		return invalid("policy: limits are %d messages and %d bytes, want at least 0", p.MaxMessages, p.MaxBytes)
	}
	if p.MaxMessages == 0 && p.MaxBytes == 0 && p.CreatedBefore.IsZero() {
		return invalid("policy: sets no limit")
	}
	return k.Check()
}

// Complete checks a query and sets its default limit.
func (q *SessionQuery) Complete() error {
	if err := completeLimit(&q.Limit); err != nil {
		return err
	}
	if err := checkOptional("agent", q.Agent); err != nil {
		return err
	}
	if n := q.Next; n != nil {
		if err := checkCursor(n.Agent, n.Session); err != nil {
			return err
		}
	}
	return checkName("owner", q.Owner)
}

// checkCursor returns an error if the names of a cursor are invalid.
func checkCursor(agent, session string) error {
	if err := checkOptional("cursor: agent", agent); err != nil {
		return err
	}
	return checkOptional("cursor: session", session)
}

// Complete checks a query, sets its default limit, and returns its matcher.
func (q *SearchQuery) Complete() (*Matcher, error) {
	if err := completeLimit(&q.Limit); err != nil {
		return nil, err
	}
	if err := checkName("owner", q.Owner); err != nil {
		return nil, err
	}
	if err := checkOptional("agent", q.Agent); err != nil {
		return nil, err
	}
	if q.Agent == "" && q.Session != "" {
		return nil, invalid("agent: must not be empty if the session is set")
	}
	if err := checkOptional("session", q.Session); err != nil {
		return nil, err
	}
	if n := q.Next; n != nil {
		if err := checkCursor(n.Agent, n.Session); err != nil {
			return nil, err
		}
	}
	return newMatcher(q.Text, q.Words)
}
