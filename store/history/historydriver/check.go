package historydriver

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/rules"
)

func invalid(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "history: "+format, args...)
}

func checkOptional(field, name string) error {
	if rule := rules.Text(name, history.MaxName); rule != "" {
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

// CheckKey returns an error if k is not a valid key.
func CheckKey(k history.Key) error {
	if err := checkName("owner", k.Owner); err != nil {
		return err
	}
	if err := checkName("agent", k.Agent); err != nil {
		return err
	}
	return checkName("session", k.Session)
}

// CheckAppend returns an error if the key or the params are invalid.
func CheckAppend(k history.Key, p *history.AppendParams) error {
	if err := CheckKey(k); err != nil {
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
	case p.TTL < history.NoTTL || p.TTL > 0 && p.TTL < time.Millisecond || p.TTL > history.MaxTTL:
		return invalid("TTL: is %v, want 1ms to %v", p.TTL, history.MaxTTL)
	case len(p.Messages) == 0 || len(p.Messages) > history.MaxAppend:
		return invalid("messages: are %d, want 1 to %d", len(p.Messages), history.MaxAppend)
	}
	total := 0
	for i := range p.Messages {
		if err := checkMessage(i, &p.Messages[i]); err != nil {
			return err
		}
		if total += len(p.Messages[i].Body); total > history.MaxAppendBytes {
			return invalid("messages: bodies have more than %d bytes in total", history.MaxAppendBytes)
		}
	}
	return nil
}

// checkMessage checks message i of an append.
func checkMessage(i int, m *history.Message) error {
	switch {
	case len(m.Body) > history.MaxBody:
		return invalid("message %d: body: has %d bytes, limit is %d", i, len(m.Body), history.MaxBody)
	case !utf8.Valid(m.Body) || !json.Valid(m.Body):
		return invalid("message %d: body: must be JSON in UTF-8", i)
	case !m.CreatedAt.IsZero() && (m.CreatedAt.Year() < 1 || m.CreatedAt.Year() > 9999):
		return invalid("message %d: creation time: year must be 1 to 9999", i)
	}
	if rule := rules.Text(m.Role, history.MaxRole); rule != "" {
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
	if len(ids) > history.MaxToolIDs {
		return fmt.Sprintf("are %d ids, limit is %d", len(ids), history.MaxToolIDs)
	}
	for _, id := range ids {
		if id == "" {
			return "an id must not be empty"
		}
		if rule := rules.Text(id, history.MaxName); rule != "" {
			return "an id " + rule
		}
	}
	return ""
}

// CheckRun returns an error if the params of ClearRun are invalid.
func CheckRun(k history.Key, run string, fence int64) error {
	if err := CheckKey(k); err != nil {
		return err
	}
	if fence < 0 {
		return invalid("fence: is %d, want at least 0", fence)
	}
	return checkName("run", run)
}

// CheckRange returns an error if the params of Messages are invalid.
func CheckRange(k history.Key, limit, offset int) error {
	switch {
	case limit < 0:
		return invalid("limit: is %d, want at least 0", limit)
	case offset < 0:
		return invalid("offset: is %d, want at least 0", offset)
	}
	return CheckKey(k)
}

// CheckExpire returns an error if the limit of Expire is invalid.
func CheckExpire(limit int) error {
	if limit < 1 {
		return invalid("limit: is %d, want at least 1", limit)
	}
	return nil
}

// CheckRewind returns an error if the params of Rewind are invalid.
func CheckRewind(k history.Key, seq int64) error {
	if seq < 0 {
		return invalid("sequence: is %d, want at least 0", seq)
	}
	return CheckKey(k)
}

// CompleteQuery checks a query and sets its default limit.
func CompleteQuery(k history.Key, q *history.Query) error {
	if q.After < 0 || q.Before < 0 {
		return invalid("cursor: is %d, want at least 0", min(q.After, q.Before))
	}
	if err := completeLimit(&q.Limit); err != nil {
		return err
	}
	return CheckKey(k)
}

func completeLimit(limit *int) error {
	if *limit < 0 || *limit > history.MaxPage {
		return invalid("limit: is %d, want 0 to %d", *limit, history.MaxPage)
	}
	if *limit == 0 {
		*limit = history.DefaultPage
	}
	return nil
}

// CheckFork returns an error if the params are invalid.
func CheckFork(p *history.ForkParams) error {
	if err := CheckKey(p.From); err != nil {
		return err
	}
	if err := CheckKey(p.To); err != nil {
		return err
	}
	switch {
	case p.From.Owner != p.To.Owner:
		return invalid("fork: the new session must have the same owner")
	case p.Through < 0:
		return invalid("fork: last sequence is %d, want at least 0", p.Through)
	case p.TTL < 0 || p.TTL > 0 && p.TTL < time.Millisecond || p.TTL > history.MaxTTL:
		return invalid("TTL: is %v, want 0 or 1ms to %v", p.TTL, history.MaxTTL)
	}
	return nil
}

// CheckPolicy returns an error if the key or the policy is invalid.
func CheckPolicy(k history.Key, p history.Policy) error {
	if p.MaxMessages < 0 || p.MaxBytes < 0 {
		return invalid("policy: limits are %d messages and %d bytes, want at least 0", p.MaxMessages, p.MaxBytes)
	}
	if p.MaxMessages == 0 && p.MaxBytes == 0 && p.CreatedBefore.IsZero() {
		return invalid("policy: sets no limit")
	}
	return CheckKey(k)
}

// CompleteSessions checks a query and sets its default limit.
func CompleteSessions(q *history.SessionQuery) error {
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

// CompleteSearch checks a query, sets its default limit, and returns its matcher.
func CompleteSearch(q *history.SearchQuery) (*Matcher, error) {
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

// maxRestoredSeq is the greatest sequence of a restored message. Later ones have room for appends
// before a double cannot represent them.
const maxRestoredSeq = 1 << 52

// CheckRestore returns an error if the params of Restore are invalid.
func CheckRestore(s *history.Session, messages []history.Message) error {
	p := history.AppendParams{Messages: messages}
	if err := CheckAppend(s.Key, &p); err != nil {
		return err
	}
	last := int64(0)
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Seq <= last:
			return invalid("message %d: sequence: is %d, want more than %d", i, m.Seq, last)
		case m.Seq > maxRestoredSeq:
			return invalid("message %d: sequence: is %d, limit is %d", i, m.Seq, maxRestoredSeq)
		case m.CreatedAt.IsZero():
			return invalid("message %d: creation time: is required", i)
		}
		if err := checkOptional("run", m.Run); err != nil {
			return err
		}
		last = m.Seq
	}
	switch {
	case s.CreatedAt.IsZero() || s.UpdatedAt.Before(s.CreatedAt):
		return invalid("session: times: want a creation time, and an update time that is not before it")
	case s.UpdatedAt.Year() > 9999 || s.ExpiresAt.Year() > 9999:
		return invalid("session: times: must be before the year 10000")
	case !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(s.UpdatedAt):
		return invalid("session: expiry: must be after the update time")
	}
	return nil
}
