package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// installed makes the packages of js/package-lock.json available, once.
var installed = sync.OnceValue(func() error {
	const have = "js/node_modules/.package-lock.json"
	lock, err := os.Stat("js/package-lock.json")
	if err != nil {
		return err
	}
	if done, err := os.Stat(have); err == nil && !done.ModTime().Before(lock.ModTime()) {
		return nil
	}
	out, err := exec.Command("npm", "ci", "--prefix", "js", "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput()
	if err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
})

// node starts a script of directory js with the packages it needs. It ends with the test.
func node(t *testing.T, script string, args ...string) (io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", append([]string{"js/" + script}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("stderr of %s:\n%s", script, stderr.String())
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 10<<20)
	return in, lines
}

// jsClient is a client of the official JS SDK in a process of its own.
type jsClient struct {
	legacy  bool // SDK 0.3
	noNames bool // the Protocol Buffers of the SDK for 0.3 have no names of files
	agent   cardInfo

	mu      sync.Mutex
	in      *json.Encoder
	next    int
	replies map[int]chan jsReply
	closed  bool
}

type jsReply struct {
	ID    int             `json:"id"`
	Value json.RawMessage `json:"value"`
	End   bool            `json:"end"`
	Error *jsError        `json:"error"`
}

type jsError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Code    int    `json:"code"`
}

func connectJS(sdk, version, binding string) func(*testing.T, string) peer {
	return func(t *testing.T, url string) peer {
		t.Helper()
		in, lines := node(t, "client.mjs", sdk, version, binding, url)
		p := &jsClient{legacy: sdk == "0.3", noNames: version == "0.3" && binding != "JSONRPC", in: json.NewEncoder(in), replies: map[int]chan jsReply{}}
		first := p.expect(0)
		go p.dispatch(lines)
		r, ok := <-first
		if !ok || r.Error != nil {
			t.Fatalf("client from card: %+v", r.Error)
		}
		var c struct {
			Name         string
			Skills       []any
			Capabilities struct{ Streaming, PushNotifications bool }
		}
		if err := json.Unmarshal(r.Value, &c); err != nil {
			t.Fatal(err)
		}
		p.agent = cardInfo{name: c.Name, skills: len(c.Skills), streaming: c.Capabilities.Streaming, push: c.Capabilities.PushNotifications}
		return p
	}
}

func (p *jsClient) expect(id int) chan jsReply {
	replies := make(chan jsReply, 1000)
	p.replies[id] = replies
	return replies
}

// dispatch hands each reply to its call. It closes what waits when the process ends.
func (p *jsClient) dispatch(lines *bufio.Scanner) {
	for lines.Scan() {
		var r jsReply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		p.mu.Lock()
		if replies := p.replies[r.ID]; replies != nil {
			replies <- r
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, replies := range p.replies {
		close(replies)
	}
}

func (p *jsClient) start(op string, args any) (<-chan jsReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("node ended")
	}
	p.next++
	replies := p.expect(p.next)
	return replies, p.in.Encode(map[string]any{"id": p.next, "op": op, "args": args})
}

func (p *jsClient) call(ctx context.Context, op string, args any) (json.RawMessage, error) {
	replies, err := p.start(op, args)
	if err != nil {
		return nil, err
	}
	select {
	case r, ok := <-replies:
		if !ok {
			return nil, errors.New("node ended")
		}
		return r.Value, r.Error.failure()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *jsClient) events(ctx context.Context, op string, args any) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		replies, err := p.start(op, args)
		if err != nil {
			yield(event{}, err)
			return
		}
		for {
			select {
			case r, ok := <-replies:
				switch {
				case !ok:
					yield(event{}, errors.New("node ended"))
				case r.Error != nil:
					yield(event{}, r.Error.failure())
				case !r.End && yield(p.event(r.Value, nil)):
					continue
				}
				return
			case <-ctx.Done():
				yield(event{}, ctx.Err())
				return
			}
		}
	}
}

func (p *jsClient) event(raw json.RawMessage, err error) (event, error) {
	if err != nil {
		return event{}, err
	}
	if p.legacy {
		return from03(raw)
	}
	return from10(raw)
}

func (p *jsClient) card() cardInfo { return p.agent }

func (p *jsClient) sending(s sending) any {
	args := map[string]any{"immediate": s.immediate}
	if args["message"] = to10(s.message); p.legacy {
		args["message"] = to03(s.message)
	}
	if s.hook != nil {
		args["hook"] = wireHook{ID: s.hook.id, URL: s.hook.url, Token: s.hook.token}
	}
	return args
}

func (p *jsClient) send(ctx context.Context, s sending) (event, error) {
	return p.event(p.call(ctx, "send", p.sending(s)))
}

func (p *jsClient) stream(ctx context.Context, s sending) iter.Seq2[event, error] {
	return p.events(ctx, "stream", p.sending(s))
}

func (p *jsClient) resubscribe(ctx context.Context, id string) iter.Seq2[event, error] {
	return p.events(ctx, "resubscribe", map[string]any{"id": id})
}

func (p *jsClient) task(ctx context.Context, id string) (event, error) {
	return p.event(p.call(ctx, "task", map[string]any{"id": id}))
}

func (p *jsClient) cancel(ctx context.Context, id string) (event, error) {
	return p.event(p.call(ctx, "cancel", map[string]any{"id": id}))
}

func (p *jsClient) setHook(ctx context.Context, h hook) (hook, error) {
	return jsHook(p.call(ctx, "setHook", wireHook{ID: h.id, TaskID: h.taskID, URL: h.url, Token: h.token}))
}

func (p *jsClient) hook(ctx context.Context, task, id string) (hook, error) {
	return jsHook(p.call(ctx, "hook", map[string]any{"task": task, "id": id}))
}

func (p *jsClient) hooks(ctx context.Context, task string) ([]hook, error) {
	raw, err := p.call(ctx, "hooks", map[string]any{"task": task})
	if err != nil {
		return nil, err
	}
	var list []wireHook
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var hooks []hook
	for _, w := range list {
		hooks = append(hooks, w.hook())
	}
	return hooks, nil
}

func (p *jsClient) deleteHook(ctx context.Context, task, id string) error {
	_, err := p.call(ctx, "deleteHook", map[string]any{"task": task, "id": id})
	return err
}

func jsHook(raw json.RawMessage, err error) (hook, error) {
	if err != nil {
		return hook{}, err
	}
	var w wireHook
	err = json.Unmarshal(raw, &w)
	return w.hook(), err
}

// jsCode and jsStatus are how the SDK writes the errors for which it has no class.
var (
	jsCode   = regexp.MustCompile(`Code: (-?\d+)`)
	jsStatus = regexp.MustCompile(`GRPC error for \w+! (\d+) `)
)

// failure returns nil for nil.
func (e *jsError) failure() error {
	if e == nil {
		return nil
	}
	f := &failure{e.Code, fmt.Errorf("%s: %s", e.Name, e.Message)}
	for name, code := range map[string]int{
		"TaskNotFound": codeTaskNotFound, "TaskNotCancelable": codeTaskNotCancelable,
		"UnsupportedOperation": codeUnsupportedOperation, "RequestMalformed": codeInvalidParams,
	} {
		if f.code == 0 && strings.Contains(e.Name, name) {
			f.code = code
		}
	}
	if m := jsCode.FindStringSubmatch(e.Message); f.code == 0 && m != nil {
		f.code, _ = strconv.Atoi(m[1])
	}
	if m := jsStatus.FindStringSubmatch(e.Message); f.code == 0 && m != nil {
		f.code = map[string]int{"3": codeInvalidParams, "12": codeUnsupportedOperation}[m[1]]
	}
	return f
}
