package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// pageToken is the content of a page token: a position in a list and the number of the page
// that starts after it. Filter ties the token to the list that it was created for.
type pageToken struct {
	Time   int64  `json:"t"`
	Name   string `json:"n,omitempty"`
	ID     string `json:"i"`
	TaskID string `json:"k,omitempty"`
	Page   int    `json:"p"`
	Filter []byte `json:"f"`
}

func (t pageToken) at() time.Time { return store.Time(time.UnixMilli(t.Time)) }

// filterHash identifies a list by its name and query.
func filterHash(list string, query any) []byte {
	raw, _ := json.Marshal(query) // plain strings and times: cannot fail
	sum := sha256.Sum256(append([]byte(list+"\x00"), raw...))
	return sum[:8]
}

func (t pageToken) encode(filter []byte) string {
	t.Filter = filter
	raw, _ := json.Marshal(t) // cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// next encodes t, the token of the next page. token requested the current page and is nil for the
// first page. Only for the first page next computes the hash of the list.
func (t pageToken) next(token *pageToken, hash func() []byte) string {
	if token != nil {
		return t.encode(token.Filter)
	}
	return t.encode(hash())
}

// decodeToken decodes a token created for the list with this hash; it returns nil for an empty
// token. Errors name field.
func decodeToken(field, token string, hash func() []byte) (*pageToken, error) {
	if token == "" {
		return nil, nil
	}
	var t pageToken
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(raw, &t) != nil || t.ID == "" || t.Page < 2 {
		return nil, a2a.Invalid(field, "was not issued by this agent")
	}
	if !bytes.Equal(t.Filter, hash()) {
		return nil, a2a.Invalid(field, "was issued for a list with other filters")
	}
	return &t, nil
}

// pageNumber returns the number, from 1, of the page at an offset or after a token.
func pageNumber(t *pageToken, offset, limit int) int {
	if t != nil {
		return t.Page
	}
	return offset/limit + 1
}
