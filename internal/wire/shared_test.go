package wire

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestLongStringsShareTheirMemory(t *testing.T) {
	t.Parallel()
	type document struct {
		Short string `json:"short"`
		Long  string `json:"long"`
	}
	original := []byte(`{"short":"ab","long":"` + strings.Repeat("ab", ShareFrom) + `"}`)
	for _, test := range []struct {
		name   string
		data   []byte
		decode func([]byte, any) error
		shared bool
	}{
		{"Unmarshal", bytes.Clone(original), Unmarshal, false},
		{"UnmarshalShared", bytes.Clone(original), UnmarshalShared, true},
		{"UnmarshalStrict", bytes.Clone(original), UnmarshalStrict, true},
		{"UnmarshalShared of a small part of a buffer", append(make([]byte, 0, 2*len(original)), original...), UnmarshalShared, false},
	} {
		var d document
		if err := test.decode(test.data, &d); err != nil || d.Short != "ab" || d.Long != strings.Repeat("ab", ShareFrom) {
			t.Fatalf("%s: %.20q, %.20q, %v", test.name, d.Short, d.Long, err)
		}
		copy(test.data, bytes.ReplaceAll(test.data, []byte("ab"), []byte("cd")))
		if shared := d.Long[0] == 'c'; shared != test.shared || d.Short != "ab" {
			t.Errorf("%s: the long string shares memory: %t, want %t; the short one is %q", test.name, shared, test.shared, d.Short)
		}
	}
}

// TestEscapesCostNoMoreMemory measures what the process allocates, so it is not parallel.
func TestEscapesCostNoMoreMemory(t *testing.T) {
	text := strings.Repeat("a line\n", 1<<20/8)
	data, err := Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	var got string
	if n := allocated(func() { err = Unmarshal(data, &got) }); err != nil || got != text || n > uint64(len(data))*5/4 {
		t.Errorf("Unmarshal() of %d bytes with escapes allocates %d, %v", len(data), n, err)
	}
	if n := allocated(func() { err = Valid(data) }); err != nil || n > 64<<10 {
		t.Errorf("Valid() of %d bytes with escapes allocates %d, %v", len(data), n, err)
	}
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	var got []string
	data := []byte(`["` + strings.Repeat(`\u0041`, 1000) + `","\ud83d\ude00é\\","\u00e9` + "\xc3" + `"]`)
	if err := Unmarshal(data, &got); err == nil {
		t.Errorf("Unmarshal() of broken UTF-8 after an escape = %q, want an error", got)
	}
	data = append(data[:len(data)-len(`,"\u00e9`)-3], ']')
	if err := Unmarshal(data, &got); err != nil || !slices.Equal(got, []string{strings.Repeat("A", 1000), `😀é\`}) {
		t.Errorf("Unmarshal() = %q, %v", got, err)
	}
}
