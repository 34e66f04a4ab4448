package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

const document = `{"name":"8f7b2c1e-5c53-4d5b-9a51-0d6f5d1c2b3a","colour":"dark-blue","shapeList":[{"kind":"circle","r":1.5},{"kind":"square","sideCm":3}],
"known":["The quick brown fox jumps over the lazy dog, again and again, until somebody is sent to tell it to stop."],"at":"2026-01-31T12:00:00.123Z",
"metadata":{"a":1,"b":[true,null,"x"]},"innerPart":{"name":"inner","flag":true}}`

func BenchmarkUnmarshal(b *testing.B) {
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		var v whole
		if err := wire.Unmarshal([]byte(document), &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalStrict(b *testing.B) {
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		var v whole
		if err := wire.UnmarshalStrict([]byte(document), &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	var v whole
	if err := wire.Unmarshal([]byte(document), &v); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 4096)
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Append(buf, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMembers(b *testing.B) {
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		if err := wire.Members([]byte(document), func(_, _ []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// The standard library, which does less, for comparison.
func BenchmarkStandardUnmarshal(b *testing.B) {
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		var v any
		if err := json.Unmarshal([]byte(document), &v); err != nil {
			b.Fatal(err)
		}
	}
}
