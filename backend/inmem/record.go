package inmem

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// value is a record. It is replaced, never modified.
type value struct{ store.Record }

func (v *value) compare(w *value) int {
	return cmp.Or(strings.Compare(v.Key.Namespace, w.Key.Namespace), strings.Compare(v.Key.Key, w.Key.Key))
}

// expiringValue is a record with an expiry. Its order includes the owner.
type expiringValue struct{ *value }

func (v expiringValue) compare(w expiringValue) int {
	return cmp.Or(strings.Compare(v.Key.Owner, w.Key.Owner), v.value.compare(w.value))
}

// value returns a record of the owner, or nil.
func (o *owner) value(namespace, key string) *value {
	if o == nil {
		return nil
	}
	want := entry[*value]{rec: &value{store.Record{Key: store.RecordKey{Namespace: namespace, Key: key}}}}
	i := o.values.findChunk(want)
	if i == len(o.values.chunks) {
		return nil
	}
	if j, found := slices.BinarySearchFunc(o.values.chunks[i], want, entry[*value].compare); found {
		return o.values.chunks[i][j].rec
	}
	return nil
}

// versions returns the versions of the records that changes name.
func (s *taskStore) versions(owner string, changes []store.RecordChange) []int64 {
	versions := make([]int64, len(changes))
	for i := range changes {
		k := changes[i].Record(owner)
		if v := s.owners[k.Owner].value(k.Namespace, k.Key); v != nil {
			versions[i] = v.Version
		}
	}
	return versions
}

// saveValues applies changes of records after their versions were checked.
func (s *taskStore) saveValues(owner string, changes []store.RecordChange) {
	for i := range changes {
		c := &changes[i]
		k := c.Record(owner)
		o := s.owner(k.Owner)
		if old := o.value(k.Namespace, k.Key); old != nil {
			s.removeValue(o, old)
		}
		if !c.Delete {
			s.addValue(o, &value{store.Record{Key: k, Version: c.Version + 1, Value: slices.Clone(c.Value), Expires: store.Time(c.Expires)}})
		}
		s.removeIfEmpty(o)
	}
}

func (s *taskStore) addValue(o *owner, v *value) {
	o.values.add(0, v)
	if !v.Expires.IsZero() {
		s.expiring.add(millis(v.Expires), expiringValue{v})
	}
}

func (s *taskStore) removeValue(o *owner, v *value) {
	o.values.remove(0, v)
	if !v.Expires.IsZero() {
		s.expiring.remove(millis(v.Expires), expiringValue{v})
	}
}

// Record implements [store.Records].
func (s *taskStore) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.Record{}, err
	}
	v := s.owners[key.Owner].value(key.Namespace, key.Key)
	if v == nil {
		return store.Record{}, store.ErrNotFound
	}
	return v.copy(), nil
}

func (v *value) copy() store.Record {
	r := v.Record
	r.Value = slices.Clone(r.Value)
	return r
}

// Records implements [store.Records].
func (s *taskStore) Records(ctx context.Context, q store.RecordQuery) (page store.RecordPage, err error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return page, err
	}
	o := s.owners[q.Owner]
	if o == nil {
		return page, nil
	}
	after := q.After
	if after.Namespace < q.Namespace {
		after = store.RecordKey{Namespace: q.Namespace}
	}
	for e := range o.values.ascend(&entry[*value]{rec: &value{store.Record{Key: after}}}) {
		if q.Namespace != "" && e.rec.Key.Namespace != q.Namespace {
			break
		}
		if page.More = len(page.Records) == q.Limit; page.More {
			break
		}
		page.Records = append(page.Records, e.rec.copy())
	}
	return page, nil
}

// SaveRecords implements [store.Records].
func (s *taskStore) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	if err := store.CheckRecords(owner, changes); err != nil {
		return a2a.Wrap(a2a.CodeInternal, err, "malformed change")
	}
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	if err := rules.Records(changes, s.versions(owner, changes)); err != nil {
		return err
	}
	s.saveValues(owner, changes)
	return nil
}

// ExpireRecords implements [store.Maintenance]. It removes the records first that expired first.
func (s *taskStore) ExpireRecords(ctx context.Context, before time.Time, limit int) (int, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	end, removed := ceilMillis(before), 0
	for ; removed < limit && s.expiring.len > 0; removed++ {
		e := s.expiring.chunks[0][0]
		if e.at >= end {
			break
		}
		o := s.owners[e.rec.Key.Owner]
		s.removeValue(o, e.rec.value)
		s.removeIfEmpty(o)
	}
	return removed, nil
}
