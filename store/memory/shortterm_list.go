package memory

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// StateLister is implemented by a [ShortTerm] that can list states.
type StateLister interface {
	// States returns the keys of the states of an owner, in an order of the store.
	States(ctx context.Context, q StateQuery) (StatePage, error)
}

// StateQuery selects states of an owner.
type StateQuery struct {
	Owner string
	// After continues after a key of an earlier page. The zero value starts the list.
	After Key
	// Limit is the maximum number of keys, as in [SearchParams].
	Limit int
}

// StatePage is a page of keys. More reports that more follow.
type StatePage struct {
	Keys []Key
	More bool
}

var _ StateLister = (*ShortTermRecords)(nil)

// States implements [StateLister].
func (s *ShortTermRecords) States(ctx context.Context, q StateQuery) (page StatePage, err error) {
	if err := (Key{Owner: q.Owner, Agent: "a", Session: "s"}).Check(); err != nil {
		return page, err
	}
	q.Limit = min(cmp.Or(max(q.Limit, 0), DefaultLimit), MaxLimit)
	records := store.RecordQuery{Owner: q.Owner, Namespace: StateNamespace, Limit: min(q.Limit, 16)} // values may be large
	if q.After != (Key{}) {
		if records.After, err = q.After.RecordKey(); err != nil {
			return page, err
		}
	}
	now := s.cfg.Now()
	for {
		found, err := s.cfg.Records.Records(ctx, records)
		if err != nil {
			return StatePage{}, err
		}
		for i := range found.Records {
			r := &found.Records[i]
			records.After = r.Key
			if absent(*r, now) {
				continue
			}
			if page.More = len(page.Keys) == q.Limit; page.More {
				return page, nil
			}
			key, err := StateKey(r.Key.Owner, r.Key.Key)
			if err != nil {
				return StatePage{}, err
			}
			page.Keys = append(page.Keys, key)
		}
		if !found.More {
			return page, nil
		}
	}
}

// StateKey returns the key of a state from the key of its record; see [Key.RecordKey].
func StateKey(owner, record string) (Key, error) {
	length, name, found := strings.Cut(record, ":")
	n, err := strconv.Atoi(length)
	if !found || err != nil || n < 0 || n > len(name) {
		return Key{}, a2a.Errorf(a2a.CodeInternal, "the store is damaged: record %s has no state", a2a.Quote(record))
	}
	return Key{Owner: owner, Agent: name[:n], Session: name[n:]}, nil
}
