package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// TestModelPassesTheSuite runs the suite on its own model.
func TestModelPassesTheSuite(t *testing.T) {
	Run(t, modelHarness())
}

func modelHarness() Harness {
	return Harness{Open: func(T) store.Store { return newModel() }, Tasks: 100}
}
