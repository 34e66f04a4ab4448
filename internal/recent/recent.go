// Package recent has a map that remembers the entries which were used last.
package recent

// Map remembers at least the Max entries that were used last, and at most twice that number: it has two generations, and
// forgets the older one when the younger one is full. The zero Map with a Max is empty. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	// Max is the size of a generation, at least 1.
	Max int

	young, old map[K]V
}

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	if value, ok = m.young[key]; ok {
		return value, true
	}
	if value, ok = m.old[key]; ok {
		m.Put(key, value)
	}
	return value, ok
}

// Put sets the value of a key.
func (m *Map[K, V]) Put(key K, value V) {
	if _, known := m.young[key]; !known && (m.young == nil || len(m.young) >= m.Max) {
		m.old, m.young = m.young, make(map[K]V)
	}
	m.young[key] = value
}

// Len returns the number of remembered values. A key that was used in both generations counts twice.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }
