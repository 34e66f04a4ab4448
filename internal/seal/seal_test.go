package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/seal"
)

func newSealer(t testing.TB, purpose string, keys ...byte) seal.Sealer {
	t.Helper()
	var all [][]byte
	for _, b := range keys {
		all = append(all, bytes.Repeat([]byte{b}, seal.KeySize))
	}
	s, err := seal.New(all, purpose)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecretsOpenWithTheirKeyAndPlaceOnly(t *testing.T) {
	t.Parallel()
	plain, place := []byte("hush"), []byte("place")
	sealed := newSealer(t, "p", 1).Seal(plain, place)
	if again := newSealer(t, "p", 1).Seal(plain, place); bytes.Equal(again, sealed) || bytes.Contains(sealed, plain) {
		t.Errorf("Seal() = %x and %x, want other nonces and no plain text", sealed, again)
	}
	if got, err := newSealer(t, "p", 2, 1).Open(sealed, place); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("Open() with an older key = %q, %v, want %q", got, err, plain)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, test := range map[string]struct {
		sealer        seal.Sealer
		sealed, place []byte
	}{
		"another key":     {newSealer(t, "p", 2), sealed, place},
		"no key":          {nil, sealed, place},
		"another purpose": {newSealer(t, "q", 1), sealed, place},
		"another place":   {newSealer(t, "p", 1), sealed, nil},
		"changed":         {newSealer(t, "p", 1), changed, place},
		"short":           {newSealer(t, "p", 1), sealed[:5], place},
		"empty":           {newSealer(t, "p", 1), nil, place},
	} {
		if got, err := test.sealer.Open(test.sealed, test.place); !errors.Is(err, seal.ErrUndecryptable) {
			t.Errorf("Open() of %s = %q, %v, want %v", name, got, err, seal.ErrUndecryptable)
		}
	}
	if _, err := seal.New([][]byte{make([]byte, seal.KeySize), []byte("hush")}, "p"); err == nil || err.Error() != "Keys[1] has 4 bytes, want 32" {
		t.Errorf("New() = %v, want the size of the second key", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(newSealer(f, "p", 1).Seal([]byte("hush"), nil))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if plain, err := newSealer(t, "p", 2).Open(sealed, nil); err == nil {
			t.Errorf("Open(%x) = %q without the key", sealed, plain)
		}
	})
}
