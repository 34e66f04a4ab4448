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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Path is the path of files below the address of an agent, before the ref.
const Path = "/blobs/"

// secretKey is the record with the secrets of links. No principal is its owner, because the
// id is not printable.
var secretKey = store.RecordKey{Owner: store.System, Namespace: "files", Key: "link-secret"}

const (
	secretSize = 32
	// maxSecrets is the number of secrets with valid links.
	maxSecrets = 4
	// A process reads the secrets again after secretsAge, or after staleAge if no secret that it knows
	// has signed a link: another replica may know a newer one.
	secretsAge = time.Minute
	staleAge   = time.Second
)

// Link returns a link to a blob that is valid on all replicas for LinkTTL, or up to a minute
// longer, so that a response that is repeated soon has the same link. base is the address of the
// agent. If it is "", the link is relative to that address.
func (f *Files) Link(ctx context.Context, base, owner, ref string) (string, error) {
	all, err := f.loadSecrets(ctx, secretsAge, true)
	if err != nil {
		return "", err
	}
	expires := strconv.FormatInt(f.cfg.Now().Add(f.cfg.LinkTTL+time.Minute).Truncate(time.Minute).Unix(), 10)
	q := url.Values{"owner": {owner}, "expires": {expires}, "signature": {sign(all[0], owner, ref, expires)}}
	return address(base, ref) + "?" + q.Encode(), nil
}

// address returns the address of a blob without a signature: it requires a token.
func address(base, ref string) string {
	return strings.TrimSuffix(base, "/") + Path + url.PathEscape(ref)
}

// Signed reports whether a query belongs to a link.
func Signed(q url.Values) bool { return q.Has("signature") }

// Verify returns the owner of a blob if the query of a link is valid, "" if not.
func (f *Files) Verify(ctx context.Context, ref string, q url.Values) (owner string, err error) {
	owner, expires := q.Get("owner"), q.Get("expires")
	end, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || owner == "" || len(q["signature"]) != 1 || len(q["owner"]) != 1 || f.cfg.Now().Unix() >= end {
		return "", nil // the link is not valid
	}
	for _, age := range []time.Duration{secretsAge, staleAge} {
		all, err := f.loadSecrets(ctx, age, false)
		if err != nil {
			return "", err
		}
		if all.verify(q.Get("signature"), owner, ref, expires) {
			return owner, nil
		}
	}
	return "", nil
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

// secrets are the secrets of links. The newest one signs links, and all of them verify links.
type secrets [][]byte

// verify reports whether one of the secrets has signed values.
func (s secrets) verify(signature string, values ...string) bool {
	for _, one := range s {
		if hmac.Equal([]byte(sign(one, values...)), []byte(signature)) {
			return true
		}
	}
	return false
}

// loadSecrets returns the secrets that all replicas share, read up to age ago. If none exists,
// loadSecrets creates one or returns none.
func (f *Files) loadSecrets(ctx context.Context, age time.Duration, create bool) (secrets, error) {
	now := f.cfg.Now()
	f.mu.Lock()
	known, read := f.secrets, f.secretsRead
	f.mu.Unlock()
	if passed := now.Sub(read); known != nil && passed >= 0 && passed < age {
		return known, nil
	}
	r, err := readSecrets(ctx, f.cfg.Records)
	if errors.Is(err, store.ErrNotFound) {
		if !create {
			return nil, nil
		}
		err = f.cfg.Records.SaveRecords(ctx, secretKey.Owner, store.RecordChange{Namespace: secretKey.Namespace, Key: secretKey.Key, Value: newSecret()})
		if err == nil || errors.Is(err, store.ErrRecordConflict) { // another replica has created it
			r, err = readSecrets(ctx, f.cfg.Records)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("secret of links: %w", err)
	}
	all := slices.Collect(slices.Chunk(r.Value, secretSize))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets, f.secretsRead = all, now
	return all, nil
}

func newSecret() []byte {
	fresh := make([]byte, secretSize)
	_, _ = rand.Read(fresh) // never fails
	return fresh
}

// readSecrets returns the record of the secrets, newest first.
func readSecrets(ctx context.Context, records Records) (store.Record, error) {
	r, err := records.Record(ctx, secretKey)
	if n := len(r.Value); err == nil && (n == 0 || n%secretSize != 0) {
		err = fmt.Errorf("record has %d bytes, want a multiple of %d", n, secretSize)
	}
	return r, err
}

// RotateSecret adds a secret that signs links from now on. Links of the previous three secrets stay
// valid for their time. With revoke, and if the record is damaged, all earlier links become
// invalid. Replicas use the new secrets within a minute.
func RotateSecret(ctx context.Context, records Records, revoke bool) error {
	for {
		r, err := records.Record(ctx, secretKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("secret of links: %w", err)
		}
		value := newSecret()
		if !revoke && len(r.Value)%secretSize == 0 {
			value = append(value, r.Value[:min(len(r.Value), (maxSecrets-1)*secretSize)]...)
		}
		err = records.SaveRecords(ctx, secretKey.Owner, store.RecordChange{Namespace: secretKey.Namespace, Key: secretKey.Key, Version: r.Version, Value: value})
		if errors.Is(err, store.ErrRecordConflict) {
			continue // another process has changed it
		}
		if err != nil {
			return fmt.Errorf("secret of links: %w", err)
		}
		return nil
	}
}
