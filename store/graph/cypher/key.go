package cypher

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// appendKey appends a text that is equal for values that DISTINCT and grouping treat as equal.
func (x *execution) appendKey(b []byte, v any) ([]byte, error) {
	if err := x.step(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return append(b, '0'), nil
	case bool:
		if v {
			return append(b, 't'), nil
		}
		return append(b, 'f'), nil
	case int64:
		return appendNumber(b, v), nil
	case float64:
		if whole := math.Trunc(v); whole == v && v >= -1<<63 && v < 1<<63 {
			return appendNumber(b, int64(v)), nil
		}
		if math.IsNaN(v) {
			return append(b, 'n'), nil
		}
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v)), nil
	case string:
		return x.appendText(append(b, 's'), v)
	case *Node:
		return x.appendText(append(b, 'N'), v.ID)
	case *Rel:
		return x.appendText(append(b, 'R'), v.ID)
	case *Path:
		return x.appendPath(b, v)
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		return x.appendKeys(b, v)
	case map[string]any:
		return x.appendMap(b, v)
	}
	return append(b, '?'), nil
}

func appendNumber(b []byte, i int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 'i'), uint64(i)) // the bits, not the number
}

func (x *execution) appendText(b []byte, s string) ([]byte, error) {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...), x.produced(len(s))
}

func (x *execution) appendKeys(b []byte, values []any) (_ []byte, err error) {
	for _, v := range values {
		if b, err = x.appendKey(b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (x *execution) appendPath(b []byte, p *Path) ([]byte, error) {
	b, err := x.appendText(append(b, 'P'), p.Nodes[0].ID)
	for _, r := range p.Rels {
		if err == nil {
			b, err = x.appendText(b, r.ID)
		}
	}
	return append(b, 'p'), err
}

func (x *execution) appendMap(b []byte, m map[string]any) (_ []byte, err error) {
	b = binary.AppendUvarint(append(b, 'm'), uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if b, err = x.appendText(b, k); err != nil {
			return nil, err
		}
		if b, err = x.appendKey(b, m[k]); err != nil {
			return nil, err
		}
	}
	return b, nil
}
