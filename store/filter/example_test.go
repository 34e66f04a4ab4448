package filter_test

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/store/filter"
)

func Example() {
	f := filter.And(filter.Eq("user.plan", "pro"), filter.Not(filter.Contains("tags", "draft")))
	fmt.Println(f.Match(map[string]any{"user": map[string]any{"plan": "pro"}, "tags": []any{"final"}}))
	text, err := json.Marshal(f)
	fmt.Println(string(text), err)
	// Output:
	// true
	// {"op":"and","filters":[{"op":"eq","path":"user.plan","value":"pro"},{"op":"not","filters":[{"op":"contains","path":"tags","value":"draft"}]}]} <nil>
}
