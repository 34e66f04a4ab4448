package s3

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// dueKind is what the rows of an owner become due for.
type dueKind int

// The kinds of due rows.
const (
	dueExpiring dueKind = iota
	dueFreed
	dueKinds
)

// table returns the rows of a kind.
func (k dueKind) table() string { return [...]string{tableExpiring, tableFreed}[k] }

// prefix returns the start of the keys of markers.
func (k dueKind) prefix() string {
	return [...]string{duePrefix + "expiring/", duePrefix + "freed/"}[k]
}

// A marker is an empty object with a time and an owner in its key. It makes owners with due rows cheap
// to find. If an owner has rows of a kind, its root names a marker with a time that is not after the
// first of these rows. The marker is written before the root that names it, under a name that is never
// used again. Before the removal of a marker that no root names, the root is committed again. So another
// commit that has written this marker, and not yet its root, fails.

// markerName returns the name of a new marker.
func markerName(at, part string) string { return at + "-" + part + "-" + strings.ToLower(rand.Text()) }

// markerTime returns the time of a marker, as timeKey does.
func markerTime(name string) string { return name[:min(len(name), timeKeyLength)] }

// markerPart returns the part that identifies the owner of a marker.
func markerPart(name string) string {
	_, rest, _ := strings.Cut(name, "-")
	part, _, _ := strings.Cut(rest, "-")
	return part
}

// schedule adds a row that becomes due.
func (s *state) schedule(k dueKind, at time.Time, name string) error {
	key := timeKey(at)
	if first := s.first[k]; first == "" || key < first {
		s.first[k] = key
	}
	return s.set(k.table()+key+"/"+name, nil)
}

// mark writes the markers that a state needs, names them in the root, and returns their keys.
func (r *refs) mark(ctx context.Context, s *state) (written []string, err error) {
	for k := range dueKinds {
		first, marker := s.first[k], s.Due[k]
		if first == "" || marker != "" && markerTime(marker) <= first {
			continue
		}
		name := markerName(first, s.part)
		if err := r.wrap(ctx, r.write(ctx, k.prefix()+name, nil, uploadOptions), "put marker"); err != nil {
			r.removeKeys(ctx, written)
			return nil, err
		}
		s.Due[k], written = name, append(written, k.prefix()+name)
	}
	return written, nil
}

// dueRow is a row that is due. name is a ref or a digest.
type dueRow struct{ owner, name string }

// due returns up to limit rows that are due at a time, ordered by the owner's first row, then by time. A
// process executes one call at a time, because concurrent calls would commit the same roots.
func (r *refs) due(ctx context.Context, k dueKind, at time.Time, limit int) (found []dueRow, err error) {
	unlock, err := r.locks.Lock(ctx, k.prefix())
	if err != nil {
		return nil, err
	}
	defer unlock()
	last, prefix := timeKey(at), r.cfg.Prefix+k.prefix()
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range r.core.ListObjectsIter(listing, r.cfg.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, r.wrap(ctx, object.Err, "list markers")
		}
		marker := strings.TrimPrefix(object.Key, prefix)
		if markerTime(marker) > last || len(found) >= limit {
			break
		}
		rows, err := r.dueOf(ctx, k, marker, last, limit-len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return found, ctx.Err()
}

// dueOf returns the due rows of a marker's owner. If there are none, it replaces or removes the marker.
func (r *refs) dueOf(ctx context.Context, k dueKind, marker, last string, limit int) (found []dueRow, err error) {
	owner := listed + markerPart(marker)
	err = r.view(ctx, owner, func(s *state) error {
		found = nil
		if s.Due[k] != marker {
			return nil
		}
		return s.scan(k.table(), "", func(row row) (bool, error) {
			at, name, _ := strings.Cut(strings.TrimPrefix(row.Key, k.table()), "/")
			if at > last {
				return false, nil
			}
			found = append(found, dueRow{s.Owner, name})
			return len(found) < limit, nil
		})
	})
	if err != nil || len(found) > 0 {
		return found, err
	}
	if err := r.update(ctx, owner, func(s *state) (bool, error) { return true, s.remark(k, marker) }); err != nil {
		return nil, err
	}
	return nil, r.remove(ctx, k.prefix()+marker)
}

// remark removes a marker from a state, so that the next commit writes one for the first row.
func (s *state) remark(k dueKind, marker string) error {
	if s.Due[k] != marker {
		return nil
	}
	s.Due[k] = ""
	return s.scan(k.table(), "", func(row row) (bool, error) {
		s.first[k], _, _ = strings.Cut(strings.TrimPrefix(row.Key, k.table()), "/")
		return false, nil
	})
}

// Expired implements blobdriver.Refs. Refs are ordered by the owner's earliest expiry, then by expiry.
func (r *refs) Expired(ctx context.Context, now time.Time, limit int) (keys []blobdriver.RefKey, err error) {
	rows, err := r.due(ctx, dueExpiring, now, limit)
	for _, row := range rows {
		keys = append(keys, blobdriver.RefKey{Owner: row.owner, Ref: row.name})
	}
	return keys, err
}

// Unreferenced implements blobdriver.Refs. Contents are ordered like the refs of Expired.
func (r *refs) Unreferenced(ctx context.Context, freed time.Time, limit int) (keys []blobdriver.ContentKey, err error) {
	rows, err := r.due(ctx, dueFreed, freed, limit)
	for _, row := range rows {
		digest, err := parseDigest(row.name)
		if err != nil {
			return nil, err
		}
		keys = append(keys, blobdriver.ContentKey{Owner: row.owner, Digest: digest})
	}
	return keys, err
}
