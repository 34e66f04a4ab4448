package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// TestModelConforms runs the suite on its own model: neither may ask more than
// the other.
func TestModelConforms(t *testing.T) {
	Run(t, modelHarness())
}

func modelHarness() Harness {
	return Harness{Open: func(T) store.Store { return newModel() }, Tasks: 100}
}
