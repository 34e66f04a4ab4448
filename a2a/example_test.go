package a2a_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
)

func Example_validate() {
	rating := 7
	err := a2a.TaskFeedbackParams{Feedback: "good", Rating: &rating}.Validate()
	fmt.Println(a2a.CodeOf(err))
	fmt.Println(err)
	// Output:
	// invalid_params
	// taskId must not be empty; rating is 7, want 1 to 5
}

func ExampleTrustLevel_AtLeast() {
	claimed, verified := a2a.TrustAdmin, a2a.TrustAnalyst
	fmt.Println(claimed.Lower(verified).AtLeast(a2a.TrustViewer))
	fmt.Println(claimed.Lower(verified).AtLeast(a2a.TrustOperator))
	// Output:
	// true
	// false
}
