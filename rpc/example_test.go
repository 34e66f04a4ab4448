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
	table, err := rpc.NewTable(rpc.Config{Methods: methods, Codecs: []rpc.Codec{v03.Codec{}}}, rpc.Bind(a2a.MethodGet,
		func(_ context.Context, _ *rpc.Call, p a2a.TaskQueryParams) (*a2a.Task, error) {
			if p.ID != "t1" {
				return nil, a2a.TaskNotFound(p.ID)
			}
			return &a2a.Task{ID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: a2a.StateWorking}}, nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	request, err := rpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"id":"t1"}}`))
	if err != nil {
		log.Fatal(err)
	}
	call := &rpc.Call{}
	if err = table.Lookup(call, &request); err != nil {
		log.Fatal(err)
	}
	if err = call.Prepare(request.Params); err != nil {
		log.Fatal(err)
	}
	task, err := call.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	response, err := call.AppendResult(nil, task)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(response))
	// Output: {"jsonrpc":"2.0","id":7,"result":{"kind":"task","id":"t1","contextId":"c1","status":{"state":"working"}}}
}
