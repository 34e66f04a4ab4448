package sqlite

// roundRobin serves owners in turn: it starts with the first owner after a given one
// and claims one due item of each, repeatedly, until the limit is reached or nothing is
// due.
type roundRobin[D any] struct {
	after string
	limit int
	// next returns the first owner after the given one that may have due items, "" if
	// there is none.
	next func(after string) (string, error)
	// due returns the first n due items of an owner.
	due func(owner string, n int) ([]D, error)
	// claim claims an item and reports whether it could.
	claim func(owner string, d D) (bool, error)
}

// dueOwner is an owner with due items. complete is set if due has all of them.
type dueOwner[D any] struct {
	owner    string
	due      []D
	complete bool
}

// run claims due items and reports whether there were any.
func (r *roundRobin[D]) run() (found bool, err error) {
	owners, err := r.dueOwners()
	if err != nil || len(owners) == 0 {
		return false, err
	}
	for claimed := 0; len(owners) > 0 && claimed < r.limit; {
		left := owners[:0]
		for _, v := range owners {
			if claimed == r.limit {
				break
			}
			ok, err := r.claim(v.owner, v.due[0])
			if err != nil {
				return true, err
			}
			if ok {
				claimed++
			}
			v.due = v.due[1:]
			if len(v.due) == 0 && !v.complete {
				if v.due, err = r.due(v.owner, r.limit-claimed); err != nil {
					return true, err
				}
				v.complete = true
			}
			if len(v.due) > 0 {
				left = append(left, v)
			}
		}
		owners = left
	}
	return true, nil
}

// dueOwners returns up to limit owners with their first due item, in the order in which
// they are served.
func (r *roundRobin[D]) dueOwners() ([]dueOwner[D], error) {
	var owners []dueOwner[D]
	owner, wrapped := r.after, false
	for len(owners) < r.limit {
		next, err := r.next(owner)
		if err != nil {
			return nil, err
		}
		if next == "" && !wrapped && r.after != "" {
			owner, wrapped = "", true
			continue
		}
		if next == "" || wrapped && next > r.after {
			break
		}
		owner = next
		due, err := r.due(owner, 1)
		if err != nil {
			return nil, err
		}
		if len(due) > 0 {
			owners = append(owners, dueOwner[D]{owner: owner, due: due})
		}
	}
	return owners, nil
}
