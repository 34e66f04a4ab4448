// Command agent is the program behind the servers of the interop tests: holdfast serve --exec
// runs it for each turn. The first word of the first message selects what it does.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

type line map[string]any

type turn struct {
	Text     string `json:"text"`
	Turn     int    `json:"turn"`
	Messages []struct {
		Parts []json.RawMessage `json:"parts"`
	} `json:"messages"`
}

type agent struct {
	in  *bufio.Scanner
	out *json.Encoder
}

func main() {
	a := &agent{in: bufio.NewScanner(os.Stdin), out: json.NewEncoder(os.Stdout)}
	a.in.Buffer(nil, 10<<20)
	var t turn
	if err := a.read(&t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := a.run(t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (a *agent) read(v any) error {
	if !a.in.Scan() {
		return fmt.Errorf("input ended: %w", a.in.Err())
	}
	return json.Unmarshal(a.in.Bytes(), v)
}

func (a *agent) write(lines ...line) error {
	for _, l := range lines {
		if err := a.out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) run(t turn) error {
	if t.Turn > 1 {
		return a.write(
			line{"type": "artifact", "name": "answer", "text": "You said: " + answer(t), "last": true},
			line{"type": "result", "text": "Done."})
	}
	word, _, _ := strings.Cut(t.Text, " ")
	switch word {
	case "chunks":
		return a.write(
			line{"type": "status", "text": "thinking"},
			line{"type": "artifact", "name": "answer", "text": "for"},
			line{"type": "artifact", "name": "answer", "text": "ty-two", "last": true},
			line{"type": "result", "text": "Done."})
	case "open": // no chunk is marked as the last one, and each is sent before the next line
		for _, l := range []line{{"type": "status", "text": "thinking"}, {"type": "artifact", "text": "for"}, {"type": "artifact", "text": "ty-two"}} {
			if err := a.write(l); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond)
		}
		return a.write(line{"type": "result", "text": "Done."})
	case "ask":
		return a.write(line{"type": "require_input", "parts": []any{
			line{"kind": "text", "text": "Which one?"}, longRunningCall,
		}})
	case "echo":
		return a.write(
			line{"type": "artifact", "name": "echo", "parts": t.Messages[0].Parts[1:], "last": true},
			line{"type": "result", "text": "Done."})
	case "reject":
		return a.write(line{"type": "reject", "text": "No."})
	case "fail":
		return a.write(line{"type": "fail", "text": "Broken."})
	case "wait":
		if err := a.write(line{"type": "status", "text": "waiting"}); err != nil {
			return err
		}
		return a.read(new(line)) // the line that cancels the turn
	case "slow":
		return a.slow(12)
	default:
		return a.write(line{"type": "result", "text": "Hello."})
	}
}

// longRunningCall marks a question as ADK does, so that its remote agents can answer it in the same task.
var longRunningCall = line{
	"kind": "data", "data": line{"id": "call-1", "name": "choose", "args": line{}},
	"metadata": line{"adk_type": "function_call", "adk_is_long_running": true},
}

// answer is the text of a follow-up, or the result in the function response that ADK sends.
func answer(t turn) string {
	for _, raw := range t.Messages[0].Parts {
		var part struct {
			Data struct {
				Response struct {
					Result string `json:"result"`
				} `json:"response"`
			} `json:"data"`
		}
		if json.Unmarshal(raw, &part) == nil && part.Data.Response.Result != "" {
			return part.Data.Response.Result
		}
	}
	return t.Text
}

// slow does n durable steps, so that a turn that runs again continues where it was.
func (a *agent) slow(n int) error {
	for i := range n {
		name := fmt.Sprintf("step %d of %d", i+1, n)
		if err := a.write(line{"type": "step", "name": name}); err != nil {
			return err
		}
		var result struct {
			Done bool `json:"done"`
		}
		if err := a.read(&result); err != nil {
			return err
		}
		if result.Done {
			continue
		}
		time.Sleep(150 * time.Millisecond)
		if err := a.write(line{"type": "status", "text": name}, line{"type": "step_done", "name": name, "result": i}); err != nil {
			return err
		}
		if err := a.read(new(line)); err != nil {
			return err
		}
	}
	return a.write(
		line{"type": "artifact", "name": "answer", "text": "All steps.", "last": true},
		line{"type": "result", "text": "Done."})
}
