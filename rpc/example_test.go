package rpc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/rpc"
)

// A table binds method descriptors to functions. A request is parsed, looked up in the
// table, prepared and run.
func Example() {
	methods := []a2a.Method{{Name: a2a.MethodGet, Summary: "Read a task"}}
	table, err := rpc.NewTable(methods, rpc.Bind(a2a.MethodGet, v03.Params[a2a.TaskQueryParams],
		func(_ context.Context, _ *rpc.Call, p a2a.TaskQueryParams) (any, error) {
			return nil, a2a.TaskNotFound(p.ID)
		}))
	if err != nil {
		log.Fatal(err)
	}
	request, err := rpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"id":"t1"}}`))
	if err != nil {
		log.Fatal(err)
	}
	call := &rpc.Call{}
	if call.Method, err = table.Lookup(&request); err != nil {
		log.Fatal(err)
	}
	prepared, err := table.Prepare(call, request.Params)
	if err != nil {
		log.Fatal(err)
	}
	_, err = prepared.Run(context.Background())
	fmt.Println(string(request.ID), err)
	// Output: 7 task "t1" not found
}
