package cards

import (
	"bytes"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// merge returns the JSON value a with the members of b that it lacks, at every level. Items of
// two arrays of the same length are merged in pairs. Where the values differ otherwise, the
// value of a remains.
func merge(a, b []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(a, []byte("{")) && bytes.HasPrefix(b, []byte("{")):
		return mergeObjects(a, b)
	case bytes.HasPrefix(a, []byte("[")) && bytes.HasPrefix(b, []byte("[")):
		return mergeArrays(a, b)
	}
	return a, nil
}

func mergeObjects(a, b []byte) ([]byte, error) {
	added := make(map[string][]byte)
	var names []string
	if err := wire.Members(b, func(name, value []byte) error {
		names = append(names, string(name))
		added[string(name)] = value
		return nil
	}); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	member := func(name string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(wire.AppendString(out, name), ':'), value...)
	}
	err := wire.Members(a, func(name, value []byte) (err error) {
		if other, both := added[string(name)]; both {
			delete(added, string(name))
			if value, err = merge(value, other); err != nil {
				return err
			}
		}
		member(string(name), value)
		return nil
	})
	for _, name := range names {
		if value, left := added[name]; left {
			member(name, value)
		}
	}
	return append(out, '}'), err
}

func mergeArrays(a, b []byte) ([]byte, error) {
	var items, others [][]byte
	collect := func(into *[][]byte) func(int, []byte) error {
		return func(_ int, value []byte) error {
			*into = append(*into, value)
			return nil
		}
	}
	if err := wire.Items(a, collect(&items)); err != nil {
		return nil, err
	}
	if err := wire.Items(b, collect(&others)); err != nil {
		return nil, err
	}
	if len(items) != len(others) {
		return a, nil
	}
	for i := range items {
		var err error
		if items[i], err = merge(items[i], others[i]); err != nil {
			return nil, err
		}
	}
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']'), nil
}
