package v03_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

// Params accepts names in camelCase and snake_case. Errors name the field.
func ExampleParams() {
	p, err := v03.Params[a2a.TaskQueryParams]([]byte(`{"id":"t1","history_length":2,"more":true}`))
	fmt.Println(p.ID, *p.HistoryLength, err)

	_, err = v03.Params[a2a.MessageSendParams]([]byte(`{"message":{"messageId":"m","role":"user"}}`))
	fmt.Println(err)
	// Output:
	// t1 2 <nil>
	// message.parts is required
}
