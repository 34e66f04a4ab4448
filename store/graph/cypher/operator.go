package cypher

import (
	"container/heap"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// operator receives rows. The row belongs to the caller.
type operator interface {
	push(r row) error
	// finish is called after the last row.
	finish() error
}

// stopped ends the rows of an operator, which needs no more of them.
type stopped struct{ by operator }

func (*stopped) Error() string { return "operator needs no more rows" }

// drive executes operators for one row.
func drive(op operator, r row) error {
	err := op.push(r)
	if err == nil {
		err = op.finish()
	}
	for {
		var stop *stopped
		if !errors.As(err, &stop) {
			return err
		}
		err = stop.by.finish()
	}
}

// collector keeps the rows of the result.
type collector struct {
	x         *execution
	max       int
	rows      [][]any
	size      int
	truncated bool
}

func (c *collector) push(r row) error {
	if len(c.rows) == c.max {
		c.truncated = true
		return &stopped{by: c}
	}
	out := make([]any, len(c.x.query.parts[0].columns))
	copy(out, r)
	c.rows = append(c.rows, out)
	if err := c.x.weigh(out); err != nil {
		return err
	}
	if c.size += sizeOf(out); c.size > graph.MaxResult {
		return graph.ErrTooLarge
	}
	return nil
}

func (c *collector) finish() error { return nil }

// distinct removes duplicates of UNION.
type distinct struct {
	x    *execution
	next operator
	seen map[string]bool
}

func (d *distinct) push(r row) error {
	key, err := d.x.appendKeys(nil, r[:len(d.x.query.parts[0].columns)])
	if err != nil || d.seen[string(key)] {
		return err
	}
	d.seen[string(key)] = true
	return d.next.push(r)
}

func (d *distinct) finish() error { return nil }

func (m *match) operator(x *execution, next operator) operator {
	return &matching{x: x, match: m, next: next}
}

type matching struct {
	x     *execution
	match *match
	next  operator
}

func (o *matching) push(r row) error {
	found := false
	err := o.x.matches(o.match.plan, r, func() (bool, error) {
		found = true
		return true, o.next.push(r)
	})
	if err != nil || found || !o.match.optional {
		return err
	}
	for _, p := range o.match.patterns {
		o.clear(p, r)
	}
	return o.next.push(r)
}

// clear sets the variables that the pattern defines to null.
func (o *matching) clear(p *pattern, r row) {
	if p.slot >= 0 {
		r[p.slot] = nil
	}
}

func (o *matching) finish() error { return o.next.finish() }

func (u *unwind) operator(x *execution, next operator) operator {
	return &unwinding{x: x, unwind: u, next: next}
}

type unwinding struct {
	x      *execution
	unwind *unwind
	next   operator
}

func (o *unwinding) push(r row) error {
	v, err := o.unwind.list.eval(o.x, r)
	if err != nil || v == nil {
		return err
	}
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	for _, item := range items {
		if err := o.x.step(1); err != nil {
			return err
		}
		r[o.unwind.as.slot] = item
		if err := o.next.push(r); err != nil {
			return err
		}
	}
	r[o.unwind.as.slot] = nil
	return nil
}

func (o *unwinding) finish() error { return o.next.finish() }

func (p *projection) operator(x *execution, next operator) operator {
	o := &projecting{x: x, p: p, next: next}
	if p.distinct {
		o.seen = make(map[string]bool)
	}
	if p.grouping {
		o.groups = make(map[string]*group)
	}
	return o
}

// projecting executes a projection: grouping, DISTINCT, ORDER BY, SKIP and LIMIT, WHERE.
type projecting struct {
	x    *execution
	p    *projection
	next operator

	groups map[string]*group
	order  []*group // of groups, by their first row
	seen   map[string]bool
	sorted *sorter

	ready       bool // skip and limit are known
	skip, limit int64
	passed      int64
}

type group struct {
	first row
	accs  []*accumulator
}

// bounds evaluates SKIP and LIMIT.
func (o *projecting) bounds() error {
	if o.ready {
		return nil
	}
	o.ready, o.limit = true, -1
	for _, b := range []struct {
		e    expr
		into *int64
	}{{o.p.skip, &o.skip}, {o.p.limit, &o.limit}} {
		if b.e == nil {
			continue
		}
		v, err := b.e.eval(o.x, nil)
		if err != nil {
			return err
		}
		n, ok := v.(int64)
		if !ok || n < 0 {
			return o.x.invalid(o.p.pos, "SKIP and LIMIT need an integer of at least 0")
		}
		*b.into = n
	}
	if len(o.p.order) > 0 {
		o.sorted = &sorter{x: o.x, order: o.p.order, max: -1}
		if o.limit >= 0 && o.limit < 1<<30 && o.skip < 1<<30 {
			o.sorted.max = int(o.skip + o.limit)
		}
	}
	return nil
}

func (o *projecting) push(r row) error {
	if err := o.bounds(); err != nil {
		return err
	}
	if err := o.x.step(1); err != nil {
		return err
	}
	if o.groups != nil {
		return o.collect(r)
	}
	return o.project(r)
}

// collect adds a row to its group.
func (o *projecting) collect(r row) error {
	var key []byte
	for _, i := range o.p.items {
		if hasAggregate(i.expr) {
			continue
		}
		v, err := i.expr.eval(o.x, r)
		if err != nil {
			return err
		}
		if key, err = o.x.appendKey(key, v); err != nil {
			return err
		}
	}
	g := o.groups[string(key)]
	if g == nil {
		g = o.newGroup(slices.Clone(r))
		o.groups[string(key)] = g
	}
	for _, a := range g.accs {
		if err := a.add(o.x, r); err != nil {
			return err
		}
	}
	return nil
}

func (o *projecting) newGroup(first row) *group {
	g := &group{first: first}
	for _, a := range o.p.aggregates {
		g.accs = append(g.accs, newAccumulator(a))
	}
	o.order = append(o.order, g)
	return g
}

// project evaluates the items of a row.
func (o *projecting) project(r row) error {
	values := make([]any, len(o.p.items))
	for n, i := range o.p.items {
		v, err := i.expr.eval(o.x, r)
		if err != nil {
			return err
		}
		values[n] = v
	}
	for n, i := range o.p.items {
		r[i.slot] = values[n]
	}
	if o.seen != nil {
		key, err := o.x.appendKeys(nil, values)
		if err != nil || o.seen[string(key)] {
			return err
		}
		o.seen[string(key)] = true
	}
	if o.sorted != nil {
		return o.sorted.add(r)
	}
	return o.pass(r)
}

// pass applies SKIP, LIMIT and WHERE and continues with the items of a row.
func (o *projecting) pass(r row) error {
	o.passed++
	if o.passed <= o.skip {
		return nil
	}
	if o.limit >= 0 && o.passed-o.skip > o.limit {
		return &stopped{by: o.after()}
	}
	if o.p.where != nil {
		if t, err := o.x.truth(o.p.where, r, o.p.pos); err != nil || t != yes {
			return err
		}
	}
	out := make(row, o.x.query.width)
	for n, i := range o.p.items {
		out[n] = r[i.slot]
	}
	if err := o.next.push(out); err != nil {
		return err
	}
	if o.limit >= 0 && o.passed-o.skip == o.limit && o.sorted == nil && o.groups == nil {
		return &stopped{by: o.after()}
	}
	return nil
}

// after finishes what follows the projection.
func (o *projecting) after() operator { return finisher{o.next} }

type finisher struct{ next operator }

func (finisher) push(row) error  { return nil }
func (f finisher) finish() error { return f.next.finish() }

func (o *projecting) finish() error {
	if err := o.bounds(); err != nil {
		return err
	}
	if err := o.finishGroups(); err != nil {
		return err
	}
	if o.sorted != nil {
		rows, err := o.sorted.rows()
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := o.pass(r); err != nil {
				return err
			}
		}
	}
	return o.next.finish()
}

func (o *projecting) finishGroups() error {
	if o.groups == nil {
		return nil
	}
	if len(o.order) == 0 && !slices.ContainsFunc(o.p.items, func(i *item) bool { return !hasAggregate(i.expr) }) {
		o.newGroup(make(row, o.x.query.width))
	}
	for _, g := range o.order {
		o.x.group = o.x.group[:0]
		for _, a := range g.accs {
			o.x.group = append(o.x.group, a.result())
		}
		if err := o.project(g.first); err != nil {
			return err
		}
	}
	return nil
}

// sorter orders rows. With a maximum it keeps the first ones only.
type sorter struct {
	x     *execution
	order []sortItem
	max   int // -1 without
	kept  []sortRow
	added int
	err   error
}

type sortRow struct {
	keys  []any
	r     row
	place int
}

func (s *sorter) add(r row) error {
	k := sortRow{r: slices.Clone(r), place: s.added}
	s.added++
	for _, o := range s.order {
		v, err := o.expr.eval(s.x, r)
		if err != nil {
			return err
		}
		k.keys = append(k.keys, v)
	}
	if s.max < 0 {
		s.kept = append(s.kept, k)
		return s.x.step(1)
	}
	heap.Push((*sortHeap)(s), k)
	if len(s.kept) > s.max {
		heap.Pop((*sortHeap)(s))
	}
	return s.err
}

func (s *sorter) compare(a, b sortRow) int {
	for i, o := range s.order {
		c, err := s.x.order(a.keys[i], b.keys[i])
		if err != nil && s.err == nil {
			s.err = err
		}
		if o.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return a.place - b.place
}

func (s *sorter) rows() ([]row, error) {
	slices.SortFunc(s.kept, s.compare)
	rows := make([]row, len(s.kept))
	for i, k := range s.kept {
		rows[i] = k.r
	}
	return rows, s.err
}

// sortHeap has the last of the kept rows first.
type sortHeap sorter

func (h *sortHeap) Len() int           { return len(h.kept) }
func (h *sortHeap) Less(i, j int) bool { return (*sorter)(h).compare(h.kept[i], h.kept[j]) > 0 }
func (h *sortHeap) Swap(i, j int)      { h.kept[i], h.kept[j] = h.kept[j], h.kept[i] }
func (h *sortHeap) Push(v any)         { h.kept = append(h.kept, v.(sortRow)) } // rows only
func (h *sortHeap) Pop() any {
	last := h.kept[len(h.kept)-1]
	h.kept = h.kept[:len(h.kept)-1]
	return last
}
