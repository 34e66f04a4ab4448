package inmem

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// ExpireTasks implements [store.Maintenance].
func (s *taskStore) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryCursor, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, nil, err
	}
	var after store.ExpiryCursor
	if p.After != nil {
		after = *p.After
	}
	old, next := s.expiryCandidates(p, after)
	for _, t := range old {
		if rules.DeleteTask(t.seen(), t.hasUndelivered()) == nil {
			s.removeTask(t)
			removed++
		}
	}
	return removed, next, nil
}

// expiryCandidates returns the next tasks to check, and the cursor if more may follow.
func (s *taskStore) expiryCandidates(p store.TaskExpiry, after store.ExpiryCursor) (old []*task, next *store.ExpiryCursor) {
	owners := s.ownersByName.iterate(true, func(e entry[*owner]) bool { return e.rec.name < after.Owner })
	for ; !owners.done; owners.next() {
		o := owners.entry().rec
		x := o.byState[p.State]
		if x == nil {
			continue
		}
		tasks := x.iterate(true, func(e entry[*task]) bool {
			return o.name == after.Owner && cmp.Or(cmp.Compare(e.at, millis(after.At)), strings.Compare(e.rec.fold.Key.ID, after.ID)) <= 0
		})
		for ; !tasks.done && tasks.entry().at < ceilMillis(p.Before); tasks.next() {
			if len(old) == p.Limit {
				last := old[len(old)-1]
				return old, &store.ExpiryCursor{Owner: last.owner.name, At: last.fold.Status.Timestamp, ID: last.fold.Key.ID}
			}
			old = append(old, tasks.entry().rec)
		}
	}
	return old, nil
}
