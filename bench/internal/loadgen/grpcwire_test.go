package loadgen

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// grpcAgent is a small server of A2A 1.0 over gRPC.
type grpcAgent struct {
	a2apb.UnimplementedA2AServiceServer

	send func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error)
	get  func(*a2apb.GetTaskRequest) (*a2apb.Task, error)
	// seen has the metadata of the last call.
	seen atomic.Pointer[metadata.MD]
}

func (a *grpcAgent) SendMessage(ctx context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	a.seen.Store(&md)
	return a.send(r)
}

func (a *grpcAgent) GetTask(_ context.Context, r *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	return a.get(r)
}

func taskIn(id string, state a2apb.TaskState) *a2apb.Task {
	return &a2apb.Task{Id: id, ContextId: "c", Status: &a2apb.TaskStatus{State: state}}
}

func sent(task *a2apb.Task) *a2apb.SendMessageResponse {
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}
}

// echoSend completes a task that has the id and the text of the message.
func echoSend(r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	task := taskIn(r.GetMessage().GetMessageId(), a2apb.TaskState_TASK_STATE_COMPLETED)
	task.History = []*a2apb.Message{r.GetMessage()}
	return sent(task), nil
}

func echoGet(r *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	return taskIn(r.GetId(), a2apb.TaskState_TASK_STATE_COMPLETED), nil
}

func serveGRPC(t testing.TB, a *grpcAgent, options ...grpc.ServerOption) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	a2apb.RegisterA2AServiceServer(s, a)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/"
}

func TestRunCountsCorrectAnswersOverGRPC(t *testing.T) {
	for _, c := range []struct {
		scenario Scenario
		payload  int
		calls    int64
	}{
		{Send, 100, 2000},
		{Send, 15 << 10, 2000}, // all workers together exceed the window of the connection
		{Get, 100, 2000},
		{SendGet, 100, 4000},
	} {
		var messages atomic.Int64
		a := &grpcAgent{get: echoGet, send: func(r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			messages.Add(1)
			if text := r.GetMessage().GetParts()[0].GetText(); len(text) != c.payload || r.GetConfiguration().GetReturnImmediately() != (c.scenario == SendGet) {
				t.Errorf("request %v with %d bytes of text, want %d", r.GetConfiguration(), len(text), c.payload)
			}
			return echoSend(r)
		}}
		r, err := Run(t.Context(), Config{
			URL: serveGRPC(t, a), Binding: GRPC10, Scenario: c.scenario, Concurrency: 40, Requests: 2000, PayloadBytes: c.payload, Tasks: 30, Token: "sesame",
			Header: map[string][]string{"X-Test": {"yes"}},
		})
		if err != nil || r.Requests != 2000 || r.Errors != 0 || r.Calls != c.calls {
			t.Errorf("%s = %+v, %v, want 2000 requests with %d calls", c.scenario, r, err, c.calls)
		}
		if r.BytesIn < 2000*50 || r.BytesOut < 2000*50 || r.Latency.P50 <= 0 || r.Reconnects != 0 {
			t.Errorf("%s: implausible report: %+v", c.scenario, r)
		}
		md := *a.seen.Load()
		for name, want := range map[string]string{"authorization": "Bearer sesame", "a2a-version": "1.0", "x-test": "yes"} {
			if got := md.Get(name); len(got) != 1 || got[0] != want {
				t.Errorf("metadata %s = %q, want %q", name, got, want)
			}
		}
	}
}

func TestRunJudgesAnswersOverGRPC(t *testing.T) {
	for want, send := range map[string]func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error){
		"gRPC status 8: try later": func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			return nil, status.Error(codes.ResourceExhausted, "try later")
		},
		"task is not terminal, want completed": func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			return sent(taskIn("t", a2apb.TaskState_TASK_STATE_WORKING)), nil
		},
		"task is failed, want completed": func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			return sent(taskIn("t", a2apb.TaskState_TASK_STATE_FAILED)), nil
		},
		`result is of kind "message", want task`: func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: &a2apb.Message{MessageId: "m"}}}, nil
		},
		`result is of kind "", want task`: func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			return &a2apb.SendMessageResponse{}, nil
		},
		"timeout": func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			time.Sleep(300 * time.Millisecond)
			return nil, status.Error(codes.Canceled, "too late")
		},
	} {
		r, err := Run(t.Context(), Config{URL: serveGRPC(t, &grpcAgent{send: send}), Binding: GRPC10, Concurrency: 1, Requests: 3, Timeout: 100 * time.Millisecond})
		if err != nil || r.Errors != 3 || len(r.ErrorTexts) != 1 || r.ErrorTexts[0].Text != want {
			t.Errorf("Run() = %+v, %v, want 3 errors %q", r, err, want)
		}
	}
	other := &grpcAgent{send: echoSend, get: func(*a2apb.GetTaskRequest) (*a2apb.Task, error) {
		return taskIn("other", a2apb.TaskState_TASK_STATE_COMPLETED), nil
	}}
	r, err := Run(t.Context(), Config{URL: serveGRPC(t, other), Binding: GRPC10, Scenario: Get, Concurrency: 1, Requests: 3, Tasks: 1})
	if err != nil || r.Errors != 3 || r.ErrorTexts[0].Text != "answer is another task" {
		t.Errorf("Run() = %+v, %v, want 3 errors for another task", r, err)
	}
}

func TestRunOverGRPCEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	url := serveGRPC(t, &grpcAgent{send: func(*a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
		cancel()
		<-release
		return nil, status.Error(codes.Canceled, "too late")
	}})
	begin := time.Now()
	r, err := Run(ctx, Config{URL: url, Binding: GRPC10, Concurrency: 20})
	if err == nil || r.Errors != 0 || time.Since(begin) > 10*time.Second {
		t.Errorf("Run() = %+v, %v after %v, want the error of its context", r, err, time.Since(begin))
	}
}

// A server that closes its connections fails the calls in progress only.
func TestRunOverGRPCConnectsAgain(t *testing.T) {
	url := serveHTTP2Resets(t)
	r, err := Run(t.Context(), Config{URL: url, Binding: GRPC10, Concurrency: 1, Requests: 5})
	if err != nil || r.Errors != 5 {
		t.Fatalf("Run() = %+v, %v, want 5 errors", r, err)
	}
	for _, e := range r.ErrorTexts {
		if !strings.HasPrefix(e.Text, "connection closed") && !strings.Contains(e.Text, "reset") && !strings.Contains(e.Text, "broken pipe") {
			t.Errorf("error %q, want the error of a closed connection", e.Text)
		}
	}
}

// serveHTTP2Resets accepts connections and closes each after its first bytes.
func serveHTTP2Resets(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var first [24]byte
			_, _ = c.Read(first[:])
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestGRPCLimitsScenariosAndPayloads(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Scenario: Stream}, {Scenario: List}, {Scenario: Contexts}, {Scenario: Echo}, {PayloadBytes: maxGRPCPayload + 1},
	} {
		cfg.URL, cfg.Binding = "http://127.0.0.1:1/", GRPC10
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "over gRPC") && !strings.Contains(err.Error(), "needs the binding") {
			t.Errorf("Run(%+v) = %v, want an error about gRPC", cfg, err)
		}
	}
}

// Frames of a hostile or broken server end the connection.
func FuzzGRPCFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, typeSettings, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 1, typeHeaders, flagEndHeaders | flagEndStream | flagPadded, 0, 0, 0, 1, 9})
	f.Add([]byte{0, 0, 2, typeData, flagPadded, 0, 0, 0, 1, 1, 0})
	f.Add([]byte{0, 0, 3, typeWindowUpdate, 0, 0, 0, 0, 0, 1, 2, 3})
	f.Fuzz(func(_ *testing.T, text []byte) {
		ours, theirs := net.Pipe()
		c := newGRPCConn(ours, nil)
		r := &grpcResult{done: make(chan struct{}, 1)}
		go func() {
			var sink [1 << 10]byte
			for {
				if _, err := theirs.Read(sink[:]); err != nil {
					return
				}
			}
		}()
		if _, err := c.start(r, sendPath, []byte("message")); err == nil {
			_, _ = theirs.Write(text)
			_ = theirs.Close()
			<-r.done
		}
		_ = theirs.Close()
		c.fail(net.ErrClosed)
		<-c.ended
	})
}

func FuzzScanProto(f *testing.F) {
	raw, err := proto.Marshal(sent(taskIn("t", a2apb.TaskState_TASK_STATE_COMPLETED)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, false)
	f.Add([]byte{0x1a, 1}, true)
	f.Fuzz(func(t *testing.T, text []byte, isTask bool) {
		var a answer
		err := a.scanProto(text, isTask)
		if !isTask {
			return
		}
		var want a2apb.Task
		if proto.Unmarshal(text, &want) == nil && err != nil {
			t.Errorf("scanProto(%x) = %v, want nil", text, err)
		}
	})
}

func TestScanProtoAllocatesNothing(t *testing.T) {
	text, err := proto.Marshal(sent(taskIn("t", a2apb.TaskState_TASK_STATE_COMPLETED)))
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if n := testing.AllocsPerRun(100, func() { _ = a.scanProto(text, false) }); n != 0 {
		t.Errorf("allocations per scan = %v, want 0", n)
	}
}

// Both sides are in this process, so the result is mainly the cost of the server.
func BenchmarkSendGRPC(b *testing.B) {
	url := serveGRPC(b, &grpcAgent{send: echoSend})
	b.ReportAllocs()
	b.ResetTimer()
	r, err := Run(b.Context(), Config{URL: url, Binding: GRPC10, Concurrency: 8, Requests: b.N})
	if err != nil || r.Errors > 0 {
		b.Fatal(r, err)
	}
}
