package a2a

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxID is the longest id that a client may choose, in bytes.
const MaxID = 128

// CheckID refuses ids that could not be told apart by a reader, or that no store could
// index. field is where the id is.
func CheckID(field, id string) error {
	switch {
	case id == "":
		return Invalid(field, "must not be empty")
	case len(id) > MaxID:
		return Invalid(field, "is longer than %d bytes", MaxID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return Invalid(field, "must consist of printable characters")
	}
	return nil
}

// signatures are the versions of Standard Webhooks signatures.
var signatures = []string{"v1", "v1a"}

// EnumValues lists the values accepted on input.
func (PayloadFormat) EnumValues() []string {
	return []string{string(PayloadEvent), string(PayloadTask), string(PayloadStreamResponse)}
}

// Validate reports every rule that the config breaks. Whether its URL may be called is
// the server's to say.
func (c PushNotificationConfig) Validate() error {
	var p Problems
	p.absolute("url", c.URL, "http", "https")
	if v, ok := c.Authentication.(interface{ Validate() error }); ok {
		p.In("authentication", v.Validate())
	}
	if f := string(c.PayloadFormat); f != "" && !slices.Contains(c.PayloadFormat.EnumValues(), f) {
		p.Add("payloadFormat", "is %s, want event, task or stream-response", Quote(f))
	}
	for i, version := range c.Signatures {
		if !slices.Contains(signatures, version) {
			p.Add(Index("signatures", i), "is %s, want v1 or v1a", Quote(version))
		} else if slices.Contains(c.Signatures[:i], version) {
			p.Add(Index("signatures", i), "is there twice")
		}
	}
	return p.Err()
}

// Validate reports every rule that the authentication breaks.
func (a PushNotificationAuthenticationInfo) Validate() error {
	var p Problems
	p.Check(len(a.Schemes) > 0, "schemes", "must not be empty")
	for i, scheme := range a.Schemes {
		p.notEmpty(Index("schemes", i), scheme)
	}
	return p.Err()
}

// Validate reports every rule that the config breaks.
func (c TaskPushNotificationConfig) Validate() error {
	var p Problems
	p.notEmpty("taskId", c.TaskID)
	p.In("pushNotificationConfig", c.Config.Validate())
	return p.Err()
}

// Validate reports every rule that the params break.
func (g GetTaskPushNotificationConfigParams) Validate() error {
	var p Problems
	p.notEmpty("id", g.TaskID)
	return p.Err()
}

// Validate reports every rule that the params break.
func (l ListTaskPushNotificationConfigParams) Validate() error {
	var p Problems
	p.notEmpty("id", l.TaskID)
	return p.Err()
}

// Validate reports every rule that the params break.
func (d DeleteTaskPushNotificationConfigParams) Validate() error {
	var p Problems
	p.notEmpty("id", d.TaskID)
	p.notEmpty("pushNotificationConfigId", d.ConfigID)
	return p.Err()
}

// Validate reports every rule that the params break.
func (l ListDeadLettersParams) Validate() error {
	var p Problems
	p.Check(l.ConfigID == "" || l.TaskID != "", "pushNotificationConfigId", "needs taskId")
	p.page(l.PageSize, l.Offset, l.PageToken)
	return p.Err()
}

// Validate reports every rule that the params break.
func (r ReplayParams) Validate() error {
	var p Problems
	p.notEmpty("taskId", r.TaskID)
	p.Check(r.FromSequence >= 0, "fromSequence", "is %d, want 0 or more", r.FromSequence)
	return p.Err()
}

// Validate reports every rule that the params break.
func (l ListAttemptsParams) Validate() error {
	var p Problems
	p.notEmpty("taskId", l.TaskID)
	p.page(l.PageSize, l.Offset, l.PageToken)
	return p.Err()
}

func (p *Problems) page(size, offset int, token string) {
	p.Check(size >= 0 && size <= 100, "pageSize", "is %d, want 1 to 100", size)
	if rule := OffsetRule(offset, token); rule != "" {
		p.Add("offset", "%s", rule)
	}
}

// maxOffset is the largest offset of a list: a store has to read all that it skips.
const maxOffset = 10_000

// OffsetRule returns the rule that the offset of a list breaks, "" if it breaks none.
func OffsetRule(offset int, pageToken string) string {
	switch {
	case offset < 0 || offset > maxOffset:
		return fmt.Sprintf("is %d, want 0 to %d; continue with pageToken to read further", offset, maxOffset)
	case offset > 0 && pageToken != "":
		return "and pageToken must not both be given"
	}
	return ""
}
