package ann

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Upsert adds items, and replaces those with the same ids. It adds all of them or none. If the
// index has a graph, it links them before it returns.
func (x *Index) Upsert(items []Item) error {
	return x.upsert(items, true)
}

// Load is Upsert without links: searches scan the items until later changes link them.
func (x *Index) Load(items []Item) error {
	return x.upsert(items, false)
}

func (x *Index) upsert(items []Item, link bool) error {
	for i := range items {
		if n := len(items[i].Vector); n != x.cfg.Dim {
			return fmt.Errorf("ann: item %d: vector has %d components, want %d", i, n, x.cfg.Dim)
		}
	}
	x.changes.Lock()
	defer x.changes.Unlock()
	x.mu.Lock()
	for i := range items {
		x.remove(items[i].ID)
		x.add(&items[i])
	}
	x.version++
	x.mu.Unlock()
	if link {
		x.maintain(len(items))
	}
	return nil
}

// Delete removes items and returns the number of those that existed.
func (x *Index) Delete(ids []string) (removed int) {
	x.changes.Lock()
	defer x.changes.Unlock()
	x.mu.Lock()
	for _, id := range ids {
		if x.remove(id) {
			removed++
		}
	}
	x.version++
	x.mu.Unlock()
	x.maintain(len(ids))
	return removed
}

// add adds an item as a pending row.
func (x *Index) add(item *Item) {
	var row uint32
	if n := len(x.free); n > 0 {
		row, x.free = x.free[n-1], x.free[:n-1]
	} else {
		row = x.size
		x.size++
		x.room(row)
	}
	b, i := x.block(row)
	b.ids.set(i, item.ID)
	x.idBytes += int64(len(item.ID))
	b.state[i] = statePending
	b.scale[i], b.norm[i] = x.encode(x.code(row), item.Vector)
	if b.attrs != nil {
		b.attrs[i] = item.Attr
	}
	x.keep(row, item.Vector)
	x.rows.add(x.table, row)
	x.pending = append(x.pending, row)
	x.filters.added(row, item)
}

// remove removes the row of an id.
func (x *Index) remove(id string) bool {
	row, ok := x.rows.get(x.table, id)
	if !ok {
		return false
	}
	x.rows.remove(x.table, id)
	x.filters.removed(row)
	x.forget(row)
	b, i := x.block(row)
	if b.attrs != nil {
		b.attrs[i] = nil
	}
	if b.state[i] == statePending {
		b.state[i] = stateDropped
		x.dropped++
	} else {
		b.state[i] = stateDead
		x.dead++
	}
	return true
}

// maintain links rows and repairs the graph in proportion to the number of changes. The caller
// holds x.changes.
func (x *Index) maintain(changes int) {
	x.replaceEntry()
	if x.dropped > 64+len(x.pending)/2 {
		x.mu.Lock()
		x.pending = x.compact(x.pending)
		x.mu.Unlock()
	}
	if x.count > 0 || x.rows.count >= x.cfg.GraphAt {
		x.linkNext(4*changes + 16)
	}
	x.repairNext(16*changes + 64)
}

// compact frees the dropped rows of a list of pending rows and returns the others.
func (x *Index) compact(rows []uint32) []uint32 {
	return slices.DeleteFunc(rows, func(row uint32) bool {
		if x.state(row) != stateDropped {
			return false
		}
		x.dropped--
		x.release(row)
		return true
	})
}

// release makes a row free.
func (x *Index) release(row uint32) {
	b, i := x.block(row)
	x.idBytes -= int64(len(x.id(row)))
	b.ids.set(i, "")
	b.state[i] = stateFree
	if b.links.degree != nil {
		b.links.degree[i] = 0
	}
	x.free = append(x.free, row)
}

// linkNext links up to limit pending rows, newest first. Searches scan them until they are linked.
func (x *Index) linkNext(limit int) {
	rest := len(x.pending) - min(limit, len(x.pending))
	rows := slices.DeleteFunc(slices.Clone(x.pending[rest:]), func(row uint32) bool { return !x.live(row) })
	x.link(rows)
	x.mu.Lock()
	x.compact(x.pending[rest:])
	x.pending = x.pending[:rest]
	x.mu.Unlock()
}

// Settle links all rows if the index has enough of them for a graph, and completes a repair that
// has started. Other changes continue in between. It returns the error of ctx if that is done before.
func (x *Index) Settle(ctx context.Context) error {
	for x.settleNext() {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// settleNext links or repairs some rows and reports whether more remain.
func (x *Index) settleNext() bool {
	x.changes.Lock()
	defer x.changes.Unlock()
	link := len(x.pending) > 0 && (x.count > 0 || x.rows.count >= x.cfg.GraphAt)
	if link {
		x.linkNext(4 * batchRows)
	} else if x.repair.active {
		x.repairNext(8 * blockRows)
	}
	return link || x.repair.active
}

// Retain keeps the items with the ids that each passes to keep, and removes all others.
func (x *Index) Retain(each func(keep func(id string)) error) error {
	x.changes.Lock()
	defer x.changes.Unlock()
	var kept bitset
	err := each(func(id string) {
		if row, ok := x.rows.get(x.table, id); ok {
			kept.add(row)
		}
	})
	if err != nil {
		return err
	}
	before := x.rows.count
	x.mu.Lock()
	for row := range x.size {
		if x.live(row) && !kept.has(row) {
			x.remove(x.id(row))
		}
	}
	x.version++
	x.mu.Unlock()
	x.maintain(before - x.rows.count)
	return nil
}

// norm returns the Euclidean norm of a vector.
func norm(v []float32) float32 {
	var sum float64
	for _, c := range v {
		sum += float64(c) * float64(c)
	}
	return float32(math.Sqrt(sum))
}
