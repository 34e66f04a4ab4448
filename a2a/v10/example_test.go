package v10_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

func Example() {
	name, metadata := v10.State(a2a.StatePaymentRequired, nil)
	fmt.Println(name, metadata)
	state, metadata, err := v10.ParseState(name, metadata)
	fmt.Println(state, metadata, err)
	// Output:
	// TASK_STATE_INPUT_REQUIRED map[holdfast.state:payment-required]
	// payment-required map[] <nil>
}
