package redis

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-dev/holdfast/store/memory"
)

var _ memory.StateLister = (*ShortTerm)(nil)

// scanCount is the number of keys that one request of a scan examines.
const scanCount = 1000

// States implements [memory.StateLister]. No index of states exists, so it examines all keys of
// the server: it is for exports and for forgetting a principal.
func (t *ShortTerm) States(ctx context.Context, q memory.StateQuery) (page memory.StatePage, err error) {
	if err := (memory.Key{Owner: q.Owner, Agent: "a", Session: "s"}).Check(); err != nil {
		return page, err
	}
	keys, err := t.scan(ctx, q.Owner)
	if err != nil {
		return page, wrapError(err, "list states")
	}
	after := ""
	if q.After != (memory.Key{}) {
		record, err := q.After.RecordKey()
		if err != nil {
			return page, err
		}
		after = record.Key
	}
	limit := memory.ClampLimit(q.Limit)
	for _, name := range keys {
		if name <= after {
			continue
		}
		key, err := memory.StateKey(q.Owner, name)
		if err != nil {
			return memory.StatePage{}, err
		}
		state, err := t.Get(ctx, key)
		if err != nil {
			return memory.StatePage{}, err
		}
		if state.Version == 0 {
			continue // expired or cleared
		}
		if page.More = len(page.Keys) == limit; page.More {
			return page, nil
		}
		page.Keys = append(page.Keys, key)
	}
	return page, nil
}

// scan returns the names of an owner's states in order.
func (t *ShortTerm) scan(ctx context.Context, owner string) (names []string, err error) {
	start := t.s.cfg.Prefix + kindState + ":{" + url.PathEscape(owner) + "/" + url.PathEscape(memory.StateNamespace) + "/"
	var mu sync.Mutex // masters are scanned concurrently
	add := func(ctx context.Context, on *goredis.Client) error {
		keys := on.Scan(ctx, 0, globEscaper.Replace(start)+"*", scanCount).Iterator()
		for keys.Next(ctx) {
			rest, ok := strings.CutSuffix(strings.TrimPrefix(keys.Val(), start), "}")
			if name, err := url.PathUnescape(rest); ok && err == nil {
				mu.Lock()
				names = append(names, name)
				mu.Unlock()
			}
		}
		return keys.Err()
	}
	if c := t.s.client; c.cluster != nil {
		err = c.cluster.ForEachMaster(ctx, add)
	} else {
		err = add(ctx, c.single)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// globEscaper escapes what patterns interpret.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
