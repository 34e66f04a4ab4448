package grpc_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/holdfast-dev/holdfast"
)

// callers is the number of concurrent callers for each processor.
const callers = 16

var lastMessage atomic.Int64

// BenchmarkUnary compares unary calls of A2A 1.0 over gRPC and JSON-RPC with the same agent. Each
// transport has a client as programs use it: one gRPC connection, or kept connections of net/http.
func BenchmarkUnary(b *testing.B) {
	e := start(b, func(c *holdfast.Config) { c.Turns.Concurrency = 1024 })
	c := pb.NewA2AServiceClient(e.conn)
	sent, err := c.SendMessage(b.Context(), benchMessage())
	if err != nil {
		b.Fatal(err)
	}
	id := sent.GetTask().GetId()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
	post := func(body string) error {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, e.http, bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body2, err := io.ReadAll(resp.Body)
		if err == nil && !bytes.Contains(body2, []byte(`"result"`)) {
			err = fmt.Errorf("response %s", body2)
		}
		return err
	}
	for _, call := range []struct {
		name string
		run  func() error
	}{
		{"GetTask/JSONRPC", func() error {
			return post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%q}}`, id))
		}},
		{"GetTask/gRPC", func() error {
			_, err := c.GetTask(b.Context(), &pb.GetTaskRequest{Id: id})
			return err
		}},
		{"SendMessage/JSONRPC", func() error {
			return post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"8f7b2c1e-5c53-4d5b-9a51-%012x","role":"ROLE_USER","parts":[{"text":%q}]}}}`, lastMessage.Add(1), benchText))
		}},
		{"SendMessage/gRPC", func() error {
			_, err := c.SendMessage(b.Context(), benchMessage())
			return err
		}},
	} {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(callers)
			before := processorTime()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := call.run(); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime returns the processor time of client and server, which other processes on the
// machine do not change.
func processorTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for invalid arguments
	return u.Utime.Nano() + u.Stime.Nano()
}

const benchText = "The quick brown fox jumps over the lazy dog, again and again, until somebody asks the fox to stop for a moment."

func benchMessage() *pb.SendMessageRequest {
	return &pb.SendMessageRequest{Message: &pb.Message{
		MessageId: fmt.Sprintf("8f7b2c1e-5c53-4d5b-9a51-%012x", lastMessage.Add(1)), Role: pb.Role_ROLE_USER,
		Parts: []*pb.Part{{Content: &pb.Part_Text{Text: benchText}}},
	}}
}
