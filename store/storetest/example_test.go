package storetest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The second Ping of this store fails.
func ExampleFaulty() {
	var inner store.Store = healthy{}
	s := storetest.Faulty(inner, storetest.FailCall("Ping", 2, storetest.FailBefore))
	for range 3 {
		err := s.Ping(context.Background())
		fmt.Println(err, errors.Is(err, a2a.ErrUnavailable))
	}
	// Output:
	// <nil> false
	// injected fault before Ping true
	// <nil> false
}

type healthy struct{ store.Store }

func (healthy) Ping(context.Context) error { return nil }
