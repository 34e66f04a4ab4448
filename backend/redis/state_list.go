package redis

import (
	"context"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

var _ memory.StateLister = (*ShortTerm)(nil)

// States implements [memory.StateLister]. It reads the whole index of the owner.
func (t *ShortTerm) States(ctx context.Context, q memory.StateQuery) (page memory.StatePage, err error) {
	if err := (memory.Key{Owner: q.Owner, Agent: "a", Session: "s"}).Check(); err != nil {
		return page, err
	}
	after := ""
	if q.After != (memory.Key{}) {
		record, err := q.After.RecordKey()
		if err != nil {
			return page, err
		}
		after = record.Key
	}
	entries, err := t.s.stateEntries.all(ctx, q.Owner)
	if err != nil {
		return page, wrapError(err, "list states")
	}
	records := stateRecords{s: t.s, now: t.cfg.Now}
	limit := memorydriver.ClampLimit(q.Limit)
	for _, e := range entries {
		if e.name <= after {
			continue
		}
		exists, err := records.check(ctx, q.Owner, e)
		if err != nil {
			return memory.StatePage{}, wrapError(err, "list states")
		}
		if !exists {
			continue
		}
		if page.More = len(page.Keys) == limit; page.More {
			return page, nil
		}
		key, err := memory.StateKey(q.Owner, e.name)
		if err != nil {
			return memory.StatePage{}, err
		}
		page.Keys = append(page.Keys, key)
	}
	return page, nil
}
