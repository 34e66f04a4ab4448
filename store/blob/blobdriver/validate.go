package blobdriver

import (
	"encoding/hex"
	"fmt"
	"mime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
)

const (
	defaultContentType = "application/octet-stream"
	defaultPage        = 100
)

func invalid(field, format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "blob: %s: %s", field, fmt.Sprintf(format, args...))
}

// completePut checks p and sets its defaults.
func completePut(p *blob.PutParams, cfg *blob.Config) error {
	if p.ContentType == "" {
		p.ContentType = defaultContentType
	}
	if p.TTL == 0 {
		p.TTL = cfg.TTL
	}
	for _, err := range []error{
		checkOwner(p.Owner), checkContentType(p.ContentType), checkText("name", p.Name, blob.MaxName),
		checkText("idempotency key", p.IdempotencyKey, maxKey(p)), checkText("holder", p.Holder, blob.MaxHolder), checkTTL(p.TTL),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case p.Size < 0:
		return invalid("size", "must not be negative (%d)", p.Size)
	case p.Size > cfg.MaxSize:
		return blob.ErrTooLarge
	}
	return nil
}

// maxKey is the maximum length of the idempotency key.
func maxKey(p *blob.PutParams) int {
	if p.KeyPerContent {
		return blob.MaxKey - len("/") - hex.EncodedLen(len(p.Digest))
	}
	return blob.MaxKey
}

func checkOwner(owner string) error {
	if owner == "" {
		return invalid("owner", "must not be empty")
	}
	return checkText("owner", owner, blob.MaxOwner)
}

func checkHolder(holder string) error {
	if holder == "" {
		return invalid("holder", "must not be empty")
	}
	return checkText("holder", holder, blob.MaxHolder)
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
	if err := checkText("content type", text, blob.MaxContentType); err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(text); err != nil || !strings.Contains(kind, "/") {
		return invalid("content type", "must be a media type such as text/plain")
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < 0 || ttl > blob.MaxTTL {
		return invalid("ttl", "must be between 0 and %v (%v)", blob.MaxTTL, ttl)
	}
	return nil
}

// completeList checks p and sets its default.
func completeList(p *blob.ListParams) error {
	if p.Limit == 0 {
		p.Limit = defaultPage
	}
	switch {
	case p.Limit < 0 || p.Limit > blob.MaxPage:
		return invalid("limit", "must be between 0 and %d (%d)", blob.MaxPage, p.Limit)
	case p.After != "" && !validID(p.After):
		return invalid("after", "is not a ref")
	}
	return checkOwner(p.Owner)
}
