package blob

import (
	"encoding/hex"
	"mime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of arguments. Lengths are in bytes.
const (
	MaxOwner       = 1024
	MaxContentType = 255
	MaxName        = 1024
	MaxKey         = 512
	MaxHolder      = 256
	// MaxHolders is the maximum number of holders of a blob.
	MaxHolders = 256
	// MaxPage is the maximum size of a page of List.
	MaxPage = 1000
	// MaxTTL is the maximum TTL, 100 years.
	MaxTTL = 100 * 365 * 24 * time.Hour
)

const (
	defaultContentType = "application/octet-stream"
	defaultPage        = 100
)

// complete checks p and sets its defaults.
func (p *PutParams) complete(cfg *Config) error {
	if p.ContentType == "" {
		p.ContentType = defaultContentType
	}
	if p.TTL == 0 {
		p.TTL = cfg.TTL
	}
	for _, err := range []error{
		checkOwner(p.Owner), checkContentType(p.ContentType), checkText("name", p.Name, MaxName),
		checkText("idempotency key", p.IdempotencyKey, p.maxKey()), checkText("holder", p.Holder, MaxHolder), checkTTL(p.TTL),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case p.Size < 0:
		return invalid("size", "must not be negative (%d)", p.Size)
	case p.Size > cfg.MaxSize:
		return ErrTooLarge
	}
	return nil
}

// maxKey is the maximum length of the idempotency key.
func (p *PutParams) maxKey() int {
	if p.KeyPerContent {
		return MaxKey - len("/") - hex.EncodedLen(len(p.Digest))
	}
	return MaxKey
}

func checkOwner(owner string) error {
	if owner == "" {
		return invalid("owner", "must not be empty")
	}
	return checkText("owner", owner, MaxOwner)
}

func checkHolder(holder string) error {
	if holder == "" {
		return invalid("holder", "must not be empty")
	}
	return checkText("holder", holder, MaxHolder)
}

// checkText rejects what a database or a header cannot contain.
func checkText(field, text string, limit int) error {
	switch {
	case len(text) > limit:
		return invalid(field, "has %d bytes, limit is %d", len(text), limit)
	case !utf8.ValidString(text):
		return invalid(field, "must be UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return invalid(field, "must not contain control characters")
	}
	return nil
}

func checkContentType(text string) error {
	if err := checkText("content type", text, MaxContentType); err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(text); err != nil || !strings.Contains(kind, "/") {
		return invalid("content type", "must be a media type such as text/plain")
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < 0 || ttl > MaxTTL {
		return invalid("ttl", "must be between 0 and %v (%v)", MaxTTL, ttl)
	}
	return nil
}

// complete checks p and sets its default.
func (p *ListParams) complete() error {
	if p.Limit == 0 {
		p.Limit = defaultPage
	}
	switch {
	case p.Limit < 0 || p.Limit > MaxPage:
		return invalid("limit", "must be between 0 and %d (%d)", MaxPage, p.Limit)
	case p.After != "" && !validID(p.After):
		return invalid("after", "is not a ref")
	}
	return checkOwner(p.Owner)
}
