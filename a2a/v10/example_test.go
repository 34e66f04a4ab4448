package v10_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// A state that A2A 1.0 lacks is mapped, and the metadata has the original.
func ExampleCodec_AppendEvent() {
	var codec v10.Codec
	out, err := codec.AppendEvent(nil, &a2a.TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: a2a.StatePaymentRequired}})
	fmt.Println(string(out), err)

	event, err := codec.DecodeEvent(out)
	fmt.Println(event.(*a2a.TaskStatusUpdateEvent).Status.State, err)
	// Output:
	// {"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_INPUT_REQUIRED"},"metadata":{"holdfast.state":"payment-required"}}} <nil>
	// payment-required <nil>
}
