package s3

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// limits are the maximum sizes in bytes of the rows in an owner's root and of the rows in a page.
type limits struct{ root, page int }

const (
	rootSize = 256 << 10
	pageSize = 64 << 10
	// rowOverhead is the size of a row without key and value.
	rowOverhead = 14
)

// rows are the rows of one owner, ordered by key, as one attempt to read or change them sees them. Pages
// are read when they are needed. A page that was written is never changed: a change writes a new page
// under a new name, and the root that names it.
type rows struct {
	pages  []*page
	limits limits
	// read returns the rows of a page, or errStale if it does not exist.
	read func(name string) ([]row, error)
	// changed reports that a page differs from the stored one.
	changed bool
}

// page is a range of rows, from a key to the first one of the next page.
type page struct {
	First string `json:"first,omitempty"`
	// Name is the name of the page's object. It is empty if the rows are in the root.
	Name  string `json:"page,omitempty"`
	Rows  []row  `json:"rows,omitempty"`
	ready bool   // Rows has been read
	dirty bool   // Rows differ from the object
}

// row is a key with a value.
type row struct {
	Key   string          `json:"k"`
	Value json.RawMessage `json:"v,omitempty"`
}

func (r *row) size() int { return len(r.Key) + len(r.Value) + rowOverhead }

func (p *page) size() (n int) {
	for i := range p.Rows {
		n += p.Rows[i].size()
	}
	return n
}

// errStale reports that a page was replaced since its root was read.
var errStale = errors.New("s3: page was replaced")

// load reads the rows of a page.
func (s *rows) load(p *page) (err error) {
	if p.Name == "" || p.ready {
		return nil
	}
	p.Rows, err = s.read(p.Name)
	p.ready = err == nil
	return err
}

// page returns the index of the page of a key.
func (s *rows) page(key string) int {
	i, found := slices.BinarySearchFunc(s.pages, key, func(p *page, key string) int { return strings.Compare(p.First, key) })
	if !found {
		i--
	}
	return i
}

// find returns the page and the position of a key.
func (s *rows) find(key string) (p *page, at int, found bool, err error) {
	if len(s.pages) == 0 {
		s.pages = []*page{{}}
	}
	p = s.pages[max(s.page(key), 0)]
	if err := s.load(p); err != nil {
		return nil, 0, false, err
	}
	at, found = slices.BinarySearchFunc(p.Rows, key, func(r row, key string) int { return strings.Compare(r.Key, key) })
	return p, at, found, nil
}

// get decodes the value of a key into v. It reports whether the key exists.
func (s *rows) get(key string, v any) (bool, error) {
	p, at, found, err := s.find(key)
	if err == nil && found && v != nil {
		err = decode(p.Rows[at].Value, v)
	}
	return found, err
}

// set stores a value, nil for a key that needs none.
func (s *rows) set(key string, v any) (err error) {
	r := row{Key: key}
	if v != nil {
		if r.Value, err = json.Marshal(v); err != nil {
			return err
		}
	}
	p, at, found, err := s.find(key)
	switch {
	case err != nil:
		return err
	case found:
		p.Rows[at] = r
	default:
		p.Rows = slices.Insert(p.Rows, at, r)
	}
	s.changed, p.dirty = true, true
	return nil
}

// remove removes a key.
func (s *rows) remove(key string) error {
	p, at, found, err := s.find(key)
	if err != nil || !found {
		return err
	}
	p.Rows = slices.Delete(p.Rows, at, at+1)
	s.changed, p.dirty = true, true
	return nil
}

// scan calls f with the rows after a key that start with a prefix, in order, until f returns false.
func (s *rows) scan(prefix, after string, f func(r row) (bool, error)) error {
	start := max(prefix, after)
	for i := max(s.page(start), 0); i < len(s.pages); i++ {
		p := s.pages[i]
		if p.First > start && !strings.HasPrefix(p.First, prefix) {
			return nil
		}
		if err := s.load(p); err != nil {
			return err
		}
		at, _ := slices.BinarySearchFunc(p.Rows, start, func(r row, key string) int { return strings.Compare(r.Key, key) })
		for _, r := range p.Rows[at:] {
			if r.Key <= after {
				continue
			}
			if !strings.HasPrefix(r.Key, prefix) {
				return nil
			}
			if more, err := f(r); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// inRoot reports whether the rows belong in the root: they fit, and the root has them already or they
// have changed.
func (s *rows) inRoot() bool {
	return len(s.pages) == 0 || len(s.pages) == 1 && (s.pages[0].Name == "" || s.pages[0].dirty) && s.pages[0].size() <= s.limits.root
}

// arrange merges small pages, splits large ones and removes empty ones. It returns the names of the
// pages that the new ones replace.
func (s *rows) arrange() (replaced []string, err error) {
	for _, p := range s.pages {
		if p.dirty && p.Name != "" {
			replaced = append(replaced, p.Name)
		}
	}
	if s.inRoot() {
		s.pages = slices.DeleteFunc(s.pages, func(p *page) bool { return len(p.Rows) == 0 })
		for _, p := range s.pages {
			p.First, p.Name = "", ""
		}
		return replaced, nil
	}
	for i := 0; i < len(s.pages); i++ {
		merged, err := s.merge(i)
		if err != nil {
			return nil, err
		}
		for _, p := range merged {
			if !p.dirty && p.Name != "" {
				replaced = append(replaced, p.Name)
			}
		}
		i -= len(merged) / 2 // i+1 is then the page after the merged ones
	}
	var arranged []*page
	for _, p := range s.pages {
		if p.dirty {
			arranged = append(arranged, p.split(s.limits.page)...)
		} else {
			arranged = append(arranged, p)
		}
	}
	if s.pages = arranged; len(arranged) > 0 {
		arranged[0].First = ""
	}
	return replaced, nil
}

// merge merges page i with the page before or after it, and returns both. It merges nothing, and returns
// none, if page i has not changed or is not small, or if both are too large together.
func (s *rows) merge(i int) ([]*page, error) {
	if p := s.pages[i]; !p.dirty || len(s.pages) == 1 || p.size() > s.limits.page/4 {
		return nil, nil
	}
	i = max(i-1, 0)
	a, b := s.pages[i], s.pages[i+1]
	if err := cmp.Or(s.load(a), s.load(b)); err != nil {
		return nil, err
	}
	if a.size()+b.size() > s.limits.page*3/4 {
		return nil, nil
	}
	s.pages[i] = &page{First: a.First, Rows: slices.Concat(a.Rows, b.Rows), ready: true, dirty: true}
	s.pages = slices.Delete(s.pages, i+1, i+2)
	return []*page{a, b}, nil
}

// split returns the pages for the rows of a page that has changed. None has a name.
func (p *page) split(limit int) (pages []*page) {
	size := p.size()
	if size > limit {
		limit = size/(size/(limit/2)) + 1
	}
	rest := p.Rows
	for len(rest) > 0 {
		n, used := 0, 0
		for n < len(rest) && (n == 0 || used+rest[n].size() <= limit) {
			used += rest[n].size()
			n++
		}
		pages = append(pages, &page{First: rest[0].Key, Rows: rest[:n:n], ready: true, dirty: true})
		rest = rest[n:]
	}
	return pages
}

// decode decodes what the store has written.
func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return errors.Join(blob.ErrCorrupt, err)
	}
	return nil
}
