package fileref

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Path is the path of files below the address of an agent, before the ref.
const Path = "/blobs/"

// secretKey is the record with the secret that signs links. No principal is its owner, because the
// id is not printable.
var secretKey = store.RecordKey{Owner: "\x1fholdfast", Namespace: "files", Key: "link-secret"}

const secretSize = 32

// Link returns a link to a blob that is valid on all replicas for LinkTTL, or up to a minute longer,
// so that a response that is repeated soon is the same. base is the address of the agent. If it is
// "", the link is relative to that address.
func (f *Files) Link(ctx context.Context, base, owner, ref string) (string, error) {
	secret, err := f.loadSecret(ctx, true)
	if err != nil {
		return "", err
	}
	expires := strconv.FormatInt(f.cfg.Now().Add(f.cfg.LinkTTL+time.Minute).Truncate(time.Minute).Unix(), 10)
	q := url.Values{"owner": {owner}, "expires": {expires}, "signature": {sign(secret, owner, ref, expires)}}
	return address(base, ref) + "?" + q.Encode(), nil
}

// address returns the address of a blob without a signature: it requires a token.
func address(base, ref string) string {
	return strings.TrimSuffix(base, "/") + Path + url.PathEscape(ref)
}

// Signed reports whether a query is that of a link.
func Signed(q url.Values) bool { return q.Has("signature") }

// Verify returns the owner of a blob if the query of a link is valid, "" if not.
func (f *Files) Verify(ctx context.Context, ref string, q url.Values) (owner string, err error) {
	owner, expires := q.Get("owner"), q.Get("expires")
	end, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || owner == "" || len(q["signature"]) != 1 || len(q["owner"]) != 1 || f.cfg.Now().Unix() >= end {
		return "", nil //nolint:nilerr // the link is not valid
	}
	secret, err := f.loadSecret(ctx, false)
	if err != nil || secret == nil {
		return "", err
	}
	if !hmac.Equal([]byte(sign(secret, owner, ref, expires)), []byte(q.Get("signature"))) {
		return "", nil
	}
	return owner, nil
}

// sign returns the HMAC-SHA256 of what a link contains. Each value is preceded by its length, so
// that no two links have the same text.
func sign(secret []byte, values ...string) string {
	mac := hmac.New(sha256.New, secret)
	for _, v := range values {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(v)))
		mac.Write(size[:])
		mac.Write([]byte(v))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// loadSecret returns the secret that all replicas share. If it does not exist, loadSecret creates
// it or returns nil.
func (f *Files) loadSecret(ctx context.Context, create bool) ([]byte, error) {
	f.mu.Lock()
	known := f.secret
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	secret, err := f.readSecret(ctx)
	if errors.Is(err, store.ErrNotFound) {
		if !create {
			return nil, nil
		}
		fresh := make([]byte, secretSize)
		_, _ = rand.Read(fresh) // never fails
		err = f.cfg.Records.SaveRecords(ctx, secretKey.Owner, store.RecordChange{Namespace: secretKey.Namespace, Key: secretKey.Key, Value: fresh})
		if err == nil || errors.Is(err, store.ErrRecordConflict) { // another replica has created it
			secret, err = f.readSecret(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("secret of links: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secret = secret
	return secret, nil
}

func (f *Files) readSecret(ctx context.Context) ([]byte, error) {
	r, err := f.cfg.Records.Record(ctx, secretKey)
	if err == nil && len(r.Value) != secretSize {
		err = fmt.Errorf("record has %d bytes, want %d", len(r.Value), secretSize)
	}
	return r.Value, err
}
