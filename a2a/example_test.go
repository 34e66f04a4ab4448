package a2a_test

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
)

// The types work with encoding/json in both directions.
func ExampleMessage_json() {
	text, err := json.Marshal(a2a.Message{ID: "m1", Role: a2a.RoleUser, Parts: []a2a.Part{
		a2a.TextPart{Text: "translate this"},
		a2a.FilePart{File: a2a.FileWithURI{URI: "https://example.com/a.pdf"}},
	}})
	fmt.Println(string(text), err)

	var m a2a.Message
	err = json.Unmarshal(text, &m)
	fmt.Println(m.Text(), len(m.Files()), err)

	err = json.Unmarshal([]byte(`{"messageId":"m2","role":"user","parts":[{"kind":"song"}]}`), &m)
	fmt.Println(err)
	// Output:
	// {"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"translate this"},{"kind":"file","file":{"uri":"https://example.com/a.pdf"}}]} <nil>
	// translate this 1 <nil>
	// parts[0].kind is "song", want one of data, file, text
}

func ExampleTask_json() {
	var answer struct {
		Task *a2a.Task `json:"task"`
	}
	err := json.Unmarshal([]byte(`{"task":{"kind":"task","id":"t1","contextId":"c1","status":{"state":"completed"}}}`), &answer)
	fmt.Println(answer.Task.ID, answer.Task.Status.State, err)

	text, err := json.Marshal(answer)
	fmt.Println(string(text), err)
	// Output:
	// t1 completed <nil>
	// {"task":{"kind":"task","id":"t1","contextId":"c1","status":{"state":"completed"}}} <nil>
}

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
