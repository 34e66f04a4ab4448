package a2a

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxID is the maximum length in bytes of an id chosen by a client.
const MaxID = 128

// CheckID returns an error if a reader could not distinguish the id from others or a store
// could not index it. field is the path of the id.
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

// EnumValues returns the accepted values.
func (PayloadFormat) EnumValues() []string {
	return []string{string(PayloadEvent), string(PayloadTask), string(PayloadStreamResponse)}
}

// Validate reports all violated rules. The server checks whether the URL is allowed.
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
			p.Add(Index("signatures", i), "occurs more than once")
		}
	}
	return p.Err()
}

// Validate reports all violated rules.
func (a PushNotificationAuthenticationInfo) Validate() error {
	var p Problems
	p.Check(len(a.Schemes) > 0, "schemes", "must not be empty")
	for i, scheme := range a.Schemes {
		p.notEmpty(Index("schemes", i), scheme)
	}
	return p.Err()
}

// Validate reports all violated rules.
func (c TaskPushNotificationConfig) Validate() error {
	var p Problems
	p.notEmpty("taskId", c.TaskID)
	p.In("pushNotificationConfig", c.Config.Validate())
	return p.Err()
}

// Validate reports all violated rules.
func (g GetTaskPushNotificationConfigParams) Validate() error {
	var p Problems
	p.notEmpty("id", g.TaskID)
	return p.Err()
}

// Validate reports all violated rules.
func (l ListTaskPushNotificationConfigParams) Validate() error {
	var p Problems
	p.notEmpty("id", l.TaskID)
	p.page(l.PageSize, 0, l.PageToken)
	return p.Err()
}

// Validate reports all violated rules.
func (d DeleteTaskPushNotificationConfigParams) Validate() error {
	var p Problems
	p.notEmpty("id", d.TaskID)
	p.notEmpty("pushNotificationConfigId", d.ConfigID)
	return p.Err()
}

// Validate reports all violated rules.
func (l ListDeadLettersParams) Validate() error {
	var p Problems
	p.Check(l.ConfigID == "" || l.TaskID != "", "pushNotificationConfigId", "requires taskId")
	p.page(l.PageSize, l.Offset, l.PageToken)
	return p.Err()
}

// Validate reports all violated rules.
func (r ReplayParams) Validate() error {
	var p Problems
	p.notEmpty("taskId", r.TaskID)
	p.Check(r.FromSequence >= 0, "fromSequence", "is %d, want 0 or more", r.FromSequence)
	return p.Err()
}

// Validate reports all violated rules.
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

// maxOffset is the maximum offset of a list, because a store reads all skipped items.
const maxOffset = 10_000

// OffsetRule returns the rule that the offset of a list violates, or "".
func OffsetRule(offset int, pageToken string) string {
	switch {
	case offset < 0 || offset > maxOffset:
		return fmt.Sprintf("is %d, want 0 to %d; continue with pageToken to read further", offset, maxOffset)
	case offset > 0 && pageToken != "":
		return "and pageToken must not both be set"
	}
	return ""
}
