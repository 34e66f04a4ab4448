package v03_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

// DecodeParams accepts names in camelCase and snake_case. Errors name the field.
func ExampleCodec_DecodeParams() {
	var codec v03.Codec
	var query a2a.TaskQueryParams
	err := codec.DecodeParams([]byte(`{"id":"t1","history_length":2,"more":true}`), &query)
	fmt.Println(query.ID, *query.HistoryLength, err)

	var send a2a.MessageSendParams
	fmt.Println(codec.DecodeParams([]byte(`{"message":{"messageId":"m","role":"user"}}`), &send))
	// Output:
	// t1 2 <nil>
	// message.parts is required
}
