package filter

import "strconv"

// Number returns a finite number as a decimal in the syntax of JSON. Backends compare the decimals:
// they are equal or ordered like the numbers. ok is false for other values.
func Number(v any) (decimal string, ok bool) {
	n := number(v)
	if n == nil {
		return "", false
	}
	if n.IsInt() {
		return n.Text('f', 0), true
	}
	f, _ := n.Float64() // exact: only float64 has fractions
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// Names returns the names of the members on a path.
func Names(path string) []string {
	names, _ := splitPath(path)
	return names
}
