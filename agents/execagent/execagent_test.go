//go:build unix

package execagent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/execagent"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// shell returns the configuration of a shell script. args are its $1, $2 and so on.
func shell(script string, args ...string) execagent.Config {
	return execagent.Config{Command: append([]string{"sh", "-c", script, "program"}, args...), Grace: 300 * time.Millisecond}
}

func newRunner(t *testing.T, cfg execagent.Config, hc ...holdfast.Config) *holdfasttest.Runner {
	t.Helper()
	h, err := execagent.New(cfg)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	if len(hc) == 0 {
		hc = []holdfast.Config{{Turns: engine.Turns{HandlerGrace: time.Minute}}}
	}
	cfg.Describe(&hc[0])
	return holdfasttest.New(t, h, hc...)
}

func text(s string) a2a.Message { return holdfasttest.Message(a2a.TextPart{Text: s}) }

func statuses(r *holdfasttest.Runner, id string) []string {
	var texts []string
	for _, e := range r.Events(id) {
		if e.Progress && e.Message != nil {
			texts = append(texts, e.Message.Text())
		}
	}
	return texts
}

func read(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(raw)
}

// hasEnded reports whether the process with the id in a file has ended. An orphan may remain as a
// zombie.
func hasEnded(file string) bool {
	pid, err := strconv.Atoi(strings.TrimSpace(read(file)))
	if err != nil {
		return false
	}
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	_, rest, ok := strings.Cut(read(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
	return ok && strings.HasPrefix(rest, "Z")
}

func TestProgramReceivesTheTurn(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`read -r turn; printf '{"type":"require_input","parts":[{"kind":"data","data":%s}]}\n' "$turn"`))
	m := holdfasttest.Message(a2a.TextPart{Text: "say \"é\"\n"}, a2a.FilePart{File: a2a.FileWithBytes{Name: "f", Bytes: []byte("abc")}}, a2a.TextPart{Text: "more"})
	first := r.SendMessage(m)
	second := r.Reply(first.ID, "again")

	turn := turnLineOf(t, first)
	if got, want := turn["text"], "say \"é\"\n\nmore"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	for field, want := range map[string]any{
		"type": "turn", "taskId": first.ID, "contextId": first.ContextID, "owner": a2a.Anonymous, "turn": 1.0, "attempt": 1.0,
	} {
		if turn[field] != want {
			t.Errorf("%s = %v, want %v", field, turn[field], want)
		}
	}
	if p, _ := turn["principal"].(map[string]any); len(p) != 1 || p["id"] != a2a.Anonymous {
		t.Errorf("principal = %v, want an object with the id only", turn["principal"])
	}
	messages := turn["messages"].([]any)
	part := messages[0].(map[string]any)["parts"].([]any)[1].(map[string]any)
	if len(messages) != 1 || part["file"].(map[string]any)["bytes"] != "YWJj" {
		t.Errorf("messages = %v, want the message with its file in base64", messages)
	}
	if history, ok := turn["history"].([]any); !ok || len(history) != 0 {
		t.Errorf("history = %v, want an empty list", turn["history"])
	}
	turn = turnLineOf(t, second)
	if history := turn["history"].([]any); turn["turn"] != 2.0 || turn["text"] != "again" || len(history) != 2 {
		t.Errorf("second turn = %v, want turn 2 with two messages of history", turn)
	}
}

func TestProgramReceivesLargeFiles(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`read -r turn; printf '{"type":"require_input","text":"%s %s"}\n' "$(printf %s "$turn" | grep -o '"bytes":"YWFh' | wc -l)" "$(printf %s "$turn" | grep -o holdfast-blob | wc -l)"`))
	m := holdfasttest.Message(a2a.FilePart{File: a2a.FileWithBytes{Name: "f", Bytes: bytes.Repeat([]byte("a"), 300_000)}})
	first := r.SendMessage(m)
	if want := "1 0"; strings.Join(strings.Fields(first.Message), " ") != want {
		t.Errorf("the first turn has %q files and references, want %q", first.Message, want)
	}
	next := holdfasttest.Message(m.Parts...)
	next.TaskID = first.ID
	if second := r.SendMessage(next); strings.Join(strings.Fields(second.Message), " ") != "2 0" {
		t.Errorf("the second turn has %q files and references, want the file of the message and of the history", second.Message)
	}
	var many holdfasttest.Task
	for range 5 {
		next := holdfasttest.Message(m.Parts...)
		next.TaskID = first.ID
		many = r.SendMessage(next)
	}
	if want := "4 3"; strings.Join(strings.Fields(many.Message), " ") != want {
		t.Errorf("the last turn has %q files and references, want %q: the history has up to 1 MiB", many.Message, want)
	}
}

func TestProgramReadsHistoryByPage(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`if [ "$HOLDFAST_TURN" -lt 7 ]; then echo '{"type":"require_input"}'; exit; fi
		read -r turn; echo '{"type":"history","before":3}'; read -r page
		printf '{"type":"require_input","parts":[{"kind":"data","data":{"turn":%s,"page":%s}}]}\n' "$turn" "$page"`))
	large := func(i int) a2a.Message {
		return holdfasttest.Message(a2a.TextPart{Text: fmt.Sprint(i, strings.Repeat("x", 300_000))})
	}
	task := r.SendMessage(large(1))
	for i := range 6 {
		m := large(i + 2)
		m.TaskID = task.ID
		task = r.SendMessage(m)
	}
	got := turnLineOf(t, task)
	firsts := func(line any) (out []string, earlier float64) {
		members := line.(map[string]any)
		list, _ := members["history"].([]any)
		if list == nil {
			list, _ = members["messages"].([]any)
		}
		for _, m := range list {
			out = append(out, m.(map[string]any)["parts"].([]any)[0].(map[string]any)["text"].(string)[:1])
		}
		return out, members["earlier"].(float64)
	}
	if messages, earlier := firsts(got["turn"]); !slices.Equal(messages, []string{"4", "5", "6"}) || earlier != 3 {
		t.Errorf("history of the turn = %v, %v earlier, want the newest three of six", messages, earlier)
	}
	if messages, earlier := firsts(got["page"]); !slices.Equal(messages, []string{"1", "2", "3"}) || earlier != 0 {
		t.Errorf("previous page = %v, %v earlier, want the first three", messages, earlier)
	}
}

func TestMetadataUpdatesAreRateLimited(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`i=0; while [ $i -lt 110 ]; do echo '{"type":"metadata","metadata":{"i":'$i'}}'; i=$((i+1)); done; echo '{"type":"result"}'`))
	started := time.Now()
	task := r.Send("go")
	if took := time.Since(started); task.State != a2a.StateCompleted || took < 9*time.Second/20 {
		t.Errorf("110 metadata updates took %s (%s), want the 10 beyond the burst at 20 per second", took, task.State)
	}
}

// turnLineOf returns the turn line that a program sent back.
func turnLineOf(t *testing.T, task holdfasttest.Task) map[string]any {
	t.Helper()
	if task.State != a2a.StateInputRequired {
		t.Fatalf("task = %s (%s), want input-required", task.State, task.Message)
	}
	turn, ok := task.Status.Message.Parts[0].(a2a.DataPart).Data.(map[string]any)
	if !ok {
		t.Fatalf("status message = %+v, want the turn", task.Status.Message.Parts)
	}
	return turn
}

func TestTurnLineStartsWithTypeAndText(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`read -r turn; case $turn in '{"type":"turn","text":"hi",'*) echo '{"type":"result","text":"yes"}';; esac`))
	if task := r.Send("hi"); task.Message != "yes" {
		t.Errorf("Send() = %s %q, want the text as the second member", task.State, task.Message)
	}
}

func TestProgramOutput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		lines    []string
		state    a2a.TaskState
		message  string
		artifact string // named "out"
	}{
		{name: "result", lines: []string{`{"type":"result","text":"done"}`}, state: a2a.StateCompleted, message: "done"},
		{name: "result without text", lines: []string{`{"type":"result"}`}, state: a2a.StateCompleted},
		{name: "unknown members", lines: []string{`{"type":"result","text":"done","mood":[1]}`}, state: a2a.StateCompleted, message: "done"},
		{name: "blank lines", lines: []string{"", " \t", `{"type":"result","text":"done"}`, ""}, state: a2a.StateCompleted, message: "done"},
		{name: "carriage returns", lines: []string{"{\"type\":\"result\",\"text\":\"done\"}\r"}, state: a2a.StateCompleted, message: "done"},
		{name: "nothing", state: a2a.StateCompleted},
		{name: "only an artifact", lines: []string{`{"type":"artifact","name":"out","text":"x"}`}, state: a2a.StateCompleted, artifact: "x"},
		{name: "chunks", lines: []string{
			`{"type":"artifact","name":"out","text":"a"}`, `{"type":"artifact","text":"other"}`, `{"type":"artifact","name":"out","parts":[{"kind":"text","text":"b"}]}`,
			`{"type":"artifact","name":"out","text":"c","last":true}`, `{"type":"result"}`,
		}, state: a2a.StateCompleted, artifact: "abc"},
		{name: "require_input", lines: []string{`{"type":"require_input","text":"which?"}`}, state: a2a.StateInputRequired, message: "which?"},
		{name: "require_auth", lines: []string{`{"type":"require_auth","text":"log in"}`}, state: a2a.StateAuthRequired, message: "log in"},
		{name: "reject", lines: []string{`{"type":"reject","text":"won't"}`}, state: a2a.StateRejected, message: "won't"},
		{name: "fail", lines: []string{`{"type":"fail","text":"can't"}`}, state: a2a.StateFailed, message: "can't"},
		{name: "fail without text", lines: []string{`{"type":"fail"}`}, state: a2a.StateFailed, message: "the program sh failed without a reason"},
		{name: "after the result", lines: []string{`{"type":"result","text":"done"}`, `garbage`, `{"type":"fail","text":"no"}`}, state: a2a.StateCompleted, message: "done"},
		{name: "garbage", lines: []string{`{"type":"status","text":"x"}`, `Traceback "x"`}, state: a2a.StateFailed, message: `line 2 of the program's output is not a JSON object: "Traceback \"x\"" (see docs/exec.md, or use --exec-plain for programs that print plain text)`},
		{name: "no object", lines: []string{`42`}, state: a2a.StateFailed, message: `line 1 of the program's output is not a JSON object: "42" (see docs/exec.md, or use --exec-plain for programs that print plain text)`},
		{name: "no type", lines: []string{`{"text":"x"}`}, state: a2a.StateFailed, message: `line 1 of the program's output is invalid: type is required: "{\"text\":\"x\"}"`},
		{name: "unknown type", lines: []string{`{"type":"resutl"}`}, state: a2a.StateFailed, message: `line 1 of the program's output has unknown type "resutl"`},
		{name: "status without text", lines: []string{`{"type":"status"}`}, state: a2a.StateFailed, message: "line 1 of the program's output has type status but no text"},
		{name: "metadata without metadata", lines: []string{`{"type":"metadata"}`}, state: a2a.StateFailed, message: "line 1 of the program's output has type metadata but no member metadata"},
		{name: "step without name", lines: []string{`{"type":"step"}`}, state: a2a.StateFailed, message: "line 1 of the program's output has a step name of 0 bytes, want 1 to 256"},
		{name: "step in a step", lines: []string{`{"type":"step","name":"a"}`, `{"type":"step","name":"b"}`}, state: a2a.StateFailed, message: `line 2 of the program's output starts step "b" while step "a" is open`},
		{name: "end of no step", lines: []string{`{"type":"step_done","name":"a"}`}, state: a2a.StateFailed, message: `line 1 of the program's output ends step "a", which is not open`},
		{name: "end in a step", lines: []string{`{"type":"step","name":"a"}`}, state: a2a.StateFailed, message: `the program sh exited without a result within step "a"`},
		{name: "result in a step", lines: []string{`{"type":"step","name":"a"}`, `{"type":"result","text":"done"}`}, state: a2a.StateCompleted, message: "done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, shell(`printf '%s' "$1"`, strings.Join(tt.lines, "\n")))
			task := r.Send("go")
			if task.State != tt.state || task.Message != tt.message || task.Artifact("out") != tt.artifact {
				t.Errorf("output %q = %s %q with artifact %q, want %s %q %q", tt.lines, task.State, task.Message, task.Artifact("out"), tt.state, tt.message, tt.artifact)
			}
		})
	}
}

// A program can send back what it reads. A client of A2A 1.0 sends data of any kind.
func TestProgramsSendDataOfAnyKind(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`echo '{"type":"result","parts":[{"kind":"data","data":null},{"kind":"data","data":"a"},{"kind":"data","data":1.5},{"kind":"data","data":{"value":null}}]}'`))
	task := r.Send("go")
	if task.State != a2a.StateCompleted {
		t.Fatalf("task = %s (%s), want completed", task.State, task.Message)
	}
	want := []a2a.Part{a2a.DataPart{}, a2a.DataPart{Data: "a"}, a2a.DataPart{Data: 1.5}, a2a.DataPart{Data: map[string]any{"value": nil}}}
	if diff := cmp.Diff(want, task.Status.Message.Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestProgressMetadataAndArtifactHeads(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`
		echo '{"type":"status","text":"one"}'
		echo '{"type":"metadata","metadata":{"k":{"v":1}}}'
		echo '{"type":"artifact","name":"a","description":"d","metadata":{"m":true},"parts":[{"kind":"data","data":[1,2]}],"last":true}'
		echo '{"type":"artifact","name":"a","text":"the second artifact","last":true}'
		echo '{"type":"status","text":"two"}'
		echo '{"type":"result","text":"t","parts":[{"kind":"data","data":{"n":3}}]}'`))
	task := r.Send("go")
	if task.State != a2a.StateCompleted {
		t.Fatalf("task = %s (%s), want completed", task.State, task.Message)
	}
	texts := slices.DeleteFunc(statuses(r, task.ID), func(s string) bool { return s == "" })
	if got := slices.Compact(texts); !cmp.Equal(got, []string{"one", "two"}) {
		t.Errorf("statuses = %q, want one and two", got)
	}
	if diff := cmp.Diff(fmt.Sprint(map[string]any{"k": map[string]any{"v": 1}}), fmt.Sprint(task.Metadata)); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if len(task.Artifacts) != 2 || task.Artifacts[0].Description != "d" || task.Artifacts[0].Metadata["m"] != true || task.Artifacts[1].Text() != "the second artifact" {
		t.Errorf("artifacts = %+v, want two with the name a", task.Artifacts)
	}
	if parts := task.Status.Message.Parts; len(parts) != 2 || parts[1].Kind() != a2a.KindData {
		t.Errorf("status message = %+v, want a text and a data part", parts)
	}
}

func TestFailWithRetryRunsTheTurnAgain(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`if [ "$HOLDFAST_ATTEMPT" = 1 ]; then echo '{"type":"fail","text":"busy","retry":true}'; else echo '{"type":"result","text":"attempt '$HOLDFAST_ATTEMPT'"}'; fi`),
		holdfast.Config{Turns: engine.Turns{RetryDelay: time.Millisecond}})
	m := text("go")
	task := r.Submit(m)
	await.True(t, "the second attempt", func() bool { return r.Task(task.ID).State.Terminal() })
	if task := r.Task(task.ID); task.State != a2a.StateCompleted || task.Message != "attempt 2" {
		t.Errorf("task = %s %q, want the second attempt completed", task.State, task.Message)
	}
}

func TestExitWithoutResultFailsTheTask(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script, want string }{
		{"status", `exit 3`, "the program sh exited with status 3 without a result"},
		{"error output", `echo first >&2; echo "ValueError: 	no such thing" >&2; echo >&2; exit 1`, "the program sh exited with status 1 without a result: ValueError:  no such thing"},
		{"error output without line feed", `printf 'no line feed' >&2; exit 1`, "the program sh exited with status 1 without a result: no line feed"},
		{"signal", `kill -9 $$`, "the program sh was terminated (signal: killed) without a result"},
		{"in a step", `echo '{"type":"step","name":"s"}'; read -r a; read -r b; echo oops >&2; exit 2`, `the program sh exited with status 2 without a result within step "s": oops`},
		{"output closed", `exec >&-; exit 4`, "the program sh exited with status 4 without a result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := newRunner(t, shell(tt.script)).Send("go")
			if task.State != a2a.StateFailed || task.Message != tt.want {
				t.Errorf("%s = %s %q, want failed %q", tt.script, task.State, task.Message, tt.want)
			}
		})
	}
}

func TestHangingProgramTimesOut(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"sleeps":           `echo $$ >"$1"; sleep 1000`,
		"ignores SIGTERM":  `trap '' TERM; echo $$ >"$1"; while :; do sleep 1000; done`,
		"closes output":    `echo $$ >"$1"; exec >&- 2>&-; while :; do sleep 1000; done`,
		"spins":            `echo $$ >"$1"; while :; do :; done`,
		"in a step":        `echo $$ >"$1"; echo '{"type":"step","name":"s"}'; sleep 1000`,
		"floods stdout":    `echo $$ >"$1"; while :; do echo '{"type":"status","text":"x"}'; done`,
		"floods stderr":    `echo $$ >"$1"; while :; do echo "an error line" >&2; done`,
		"waits for a line": `echo $$ >"$1"; read -r turn; echo '{"type":"receive","wait":true}'; read -r more; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			cfg := shell(script, file)
			cfg.Grace = 50 * time.Millisecond
			for cfg.Timeout = 300 * time.Millisecond; read(file) == ""; cfg.Timeout *= 2 { // on a busy machine the script may not have written its id yet
				task := newRunner(t, cfg).Send("go")
				if want := fmt.Sprintf("the program sh exceeded the time limit of %s", cfg.Timeout); task.State != a2a.StateFailed || task.Message != want {
					t.Fatalf("task = %s %q, want failed %q", task.State, task.Message, want)
				}
			}
			if !hasEnded(file) {
				t.Errorf("the program still runs after its task has ended")
			}
		})
	}
}

func TestStatusUpdatesAreRateLimited(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`i=0; while [ $i -lt 5000 ]; do echo '{"type":"status","text":"'$i'"}'; i=$((i+1)); done; echo '{"type":"receive"}'; read -r turn; read -r none; sleep 0.5; echo '{"type":"result"}'`))
	task := r.Send("go")
	got := statuses(r, task.ID)
	if task.State != a2a.StateCompleted || len(got) < 100 || len(got) > 1000 {
		t.Fatalf("task = %s (%s) with %d statuses, want completed with 100 to 1000", task.State, task.Message, len(got))
	}
	if last := got[len(got)-1]; last != "4999" {
		t.Errorf("last status = %s, want the newest status", last)
	}
}

func TestProgramReceivesCancel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	received, pid := filepath.Join(dir, "received"), filepath.Join(dir, "pid")
	cfg := shell(`trap '' TERM; echo $$ >"$2"; while read -r line; do echo "$line" >>"$1"; done; echo end >>"$1"`, received, pid)
	cfg.Grace = 50 * time.Second
	r := newRunner(t, cfg)
	task := r.Submit(text("go"))
	await.True(t, "the turn", func() bool { return strings.Contains(read(received), `"turn"`) })
	if got := r.Cancel(task.ID); got.State != a2a.StateCanceled {
		t.Errorf("Cancel() = %s, want canceled", got.State)
	}
	await.True(t, "the cancel line and the end of input", func() bool {
		return strings.HasSuffix(read(received), "{\"type\":\"cancel\",\"reason\":\"canceled\"}\nend\n")
	})
	await.True(t, "the end of the program", func() bool { return hasEnded(pid) })
}

func TestCancelKillsProgramThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	cfg := shell(`trap '' TERM; echo $$ >"$1"; while :; do sleep 1000; done`, pid)
	r := newRunner(t, cfg)
	task := r.Submit(text("go"))
	await.True(t, "the program", func() bool { return read(pid) != "" })
	r.Cancel(task.ID)
	await.True(t, "the end of the program", func() bool { return hasEnded(pid) })
}

func TestTooLongLineFailsTheTask(t *testing.T) {
	t.Parallel()
	cfg := shell(`echo '{"type":"status","text":"ok"}'; head -c 300000 /dev/zero | tr '\0' x; echo; echo '{"type":"result"}'; sleep 1000`)
	cfg.MaxLine = 1 << 16
	task := newRunner(t, cfg).Send("go")
	want := `line 2 of the program's output is longer than the limit of 65536 bytes: "xxxx`
	if task.State != a2a.StateFailed || !strings.HasPrefix(task.Message, want) || len(task.Message) > 300 {
		t.Errorf("task = %s %q, want failed %q..., short", task.State, task.Message, want)
	}
}

// A program may exceed the limit with a line that it never terminates.
func TestUnterminatedLineFailsAtTheLimit(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"and waits":       `echo '{"type":"status","text":"ok"}'; echo $$ >"$1"; head -c 100000 /dev/zero | tr '\0' x; exec sleep 1000`,
		"and continues":   `echo '{"type":"status","text":"ok"}'; echo $$ >"$1"; exec tr '\0' x </dev/zero`,
		"one byte beyond": `echo '{"type":"status","text":"ok"}'; echo $$ >"$1"; head -c 65537 /dev/zero | tr '\0' x; exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			cfg := shell(script, pid)
			cfg.MaxLine = 1 << 16
			task := newRunner(t, cfg).Send("go")
			want := `line 2 of the program's output is longer than the limit of 65536 bytes: "xxxx`
			if task.State != a2a.StateFailed || !strings.HasPrefix(task.Message, want) || len(task.Message) > 300 {
				t.Errorf("task = %s %q, want failed %q..., short", task.State, task.Message, want)
			}
			if !hasEnded(pid) {
				t.Error("the program still runs after its task has failed")
			}
		})
	}
}

func TestLongLineIsAccepted(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`printf '{"type":"artifact","name":"out","text":"'; head -c 300000 /dev/zero | tr '\0' x; echo '"}'`))
	if task := r.Send("go"); task.State != a2a.StateCompleted || len(task.Artifact("out")) != 300000 {
		t.Errorf("task = %s with %d bytes, want completed with 300000", task.State, len(task.Artifact("out")))
	}
}

func TestTooMuchOutputFailsTheTask(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`while :; do echo '{"type":"artifact","name":"out","text":"0123456789012345678901234567890123456789"}'; done`),
		holdfast.Config{Limits: engine.Limits{ArtifactBytes: 10_000}})
	task := r.Send("go")
	if task.State != a2a.StateFailed || !strings.Contains(task.Message, "10000 bytes") {
		t.Errorf("task = %s %q, want failed because of the limit", task.State, task.Message)
	}
}

func TestTooLargeStepFailsTheTask(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`echo '{"type":"step","name":"big"}'; read -r a; echo '{"type":"step_done","name":"big","result":"'$(head -c 2000 /dev/zero | tr '\0' x)'"}'; sleep 1000`),
		holdfast.Config{Limits: engine.Limits{StepBytes: 1000}})
	task := r.Send("go")
	if task.State != a2a.StateFailed || !strings.Contains(task.Message, `step "big"`) || !strings.Contains(task.Message, "at most 1000") {
		t.Errorf("task = %s %q, want failed because of the step limit", task.State, task.Message)
	}
}

func TestStderrIsLoggedAndBounded(t *testing.T) {
	t.Parallel()
	var log await.Buffer
	cfg := shell(`yes "a line of errors" | head -n 100000 >&2; head -c 100000 /dev/zero | tr '\0' e >&2; echo '{"type":"result","text":"fine"}'`)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	task := newRunner(t, cfg).Send("go")
	if task.State != a2a.StateCompleted || task.Message != "fine" {
		t.Errorf("task = %s %q, want completed", task.State, task.Message)
	}
	got := log.String()
	if n := strings.Count(got, "a line of errors"); n != 1000 {
		t.Errorf("%d lines are logged, want 1000", n)
	}
	if !strings.Contains(got, "task="+task.ID) || len(got) > 1<<20 {
		t.Errorf("log of %d bytes, want the task ID and less than 1 MiB", len(got))
	}
}

func TestExitStatusIsLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{"without a result", `exit 3`, []string{"level=WARN", `msg="program ended without a result"`, `exit="exited with status 3"`, "cause=", "attempt=1"}},
		{"within a step", `echo '{"type":"step","name":"s"}'`, []string{"level=WARN", `msg="program ended without a result"`, `exit="exited with status 0"`}},
		{"by a signal", `kill -9 $$`, []string{"level=WARN", `msg="program ended without a result"`, `exit="was terminated (signal: killed)"`}},
		{"after its result", `echo '{"type":"result","text":"x"}'; exit 4`, []string{"level=WARN", `msg="program failed after its result"`, `exit="exited with status 4"`}},
		{"success", `echo '{"type":"result","text":"x"}'`, []string{"level=DEBUG", `msg="program ended"`, `exit="exited with status 0"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log await.Buffer
			cfg := shell(c.script)
			cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			task := newRunner(t, cfg).Send("go")
			for _, line := range strings.Split(log.String(), "\n") {
				missing := ""
				for _, want := range append(c.want, "task="+task.ID) {
					if !strings.Contains(line, want) {
						missing = want
					}
				}
				if missing == "" {
					return
				}
			}
			t.Errorf("log has no line with %q:\n%s", c.want, log.String())
		})
	}
}

func TestUnreadStdinDoesNotBlock(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 200<<10) // more than a pipe holds
	for name, script := range map[string]string{
		"closed at once": `exec <&-; echo '{"type":"result","text":"fine"}'`,
		"never read":     `echo '{"type":"status","text":"busy"}'; echo '{"type":"result","text":"fine"}'`,
		"no answers read": `i=0; while [ $i -lt 10 ]; do echo '{"type":"receive"}'; i=$((i+1)); done
			echo '{"type":"result","text":"fine"}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := newRunner(t, shell(script)).Send(big)
			if task.State != a2a.StateCompleted || task.Message != "fine" {
				t.Errorf("task = %s %q, want completed", task.State, task.Message)
			}
		})
	}
}

func TestGrandchildrenDoNotDelayTheTurn(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"after a result":   `sleep 1000 & echo $! >"$1"; echo '{"type":"result","text":"fine"}'`,
		"without a result": `sleep 1000 & echo $! >"$1"`,
		"ignoring SIGTERM": `(trap '' TERM; exec sleep 1000) & echo $! >"$1"; echo '{"type":"result","text":"fine"}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			task := newRunner(t, shell(script, pid)).Send("go")
			if task.State != a2a.StateCompleted {
				t.Errorf("task = %s %q, want completed", task.State, task.Message)
			}
			await.True(t, "the end of the grandchild", func() bool { return hasEnded(pid) })
		})
	}
}

func TestGrandchildOutsideTheProcessGroupDoesNotDelayTheTurn(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Fatalf("needs the program setsid of util-linux: %v", err)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	for _, script := range []string{
		`setsid sh -c 'echo $$ >"$1"; exec sleep 1000' x "$1" & while [ ! -s "$1" ]; do :; done`,
		// Output of a process that remains is cut off.
		`setsid sh -c 'echo $$ >"$1"; while :; do echo "{\"type\":\"status\",\"text\":\"x\"}"; done' x "$1" & while [ ! -s "$1" ]; do :; done`,
	} {
		task := newRunner(t, shell(script, pid)).Send("go")
		if task.State != a2a.StateCompleted {
			t.Errorf("task = %s %q, want completed", task.State, task.Message)
		}
		if n, err := strconv.Atoi(strings.TrimSpace(read(pid))); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
		_ = os.Remove(pid)
	}
}

func TestOutputOfAQuickProgramIsComplete(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`i=0; while [ $i -lt 2000 ]; do echo '{"type":"artifact","name":"out","text":"0123456789"}'; i=$((i+1)); done`))
	if task := r.Send("go"); task.State != a2a.StateCompleted || len(task.Artifact("out")) != 20_000 {
		t.Errorf("task = %s (%s) with %d bytes, want completed with 20000", task.State, task.Message, len(task.Artifact("out")))
	}
}

func TestStoredStepsAreNotRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ran, gate := filepath.Join(dir, "ran"), filepath.Join(dir, "gate")
	// The third step blocks until the gate file exists.
	r := newRunner(t, shell(`
		read -r turn
		for n in 1 2 3 4 5; do
			echo '{"type":"step","name":"step"}'
			read -r answer
			case $answer in
			*'"done":true,"result":{"n":'$n'}}') continue ;;
			*'"done":false}') ;;
			*) echo "unexpected: $answer" >&2; exit 1 ;;
			esac
			echo $n >>"$1"
			[ $n -lt 3 ] || [ -e "$2" ] || sleep 1000
			echo '{"type":"step_done","name":"step","result":{ "n": '$n' }}'
			read -r stored
			[ "$stored" = '{"type":"step_stored","name":"step"}' ] || { echo "unexpected: $stored" >&2; exit 1; }
		done
		echo '{"type":"result","text":"fine"}'`, ran, gate))
	task := r.Submit(text("go"))
	await.True(t, "the third step", func() bool { return read(ran) == "1\n2\n3\n" })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Restart()
	if task := r.Wait(task.ID); task.State != a2a.StateCompleted || task.Message != "fine" {
		t.Errorf("task = %s %q, want completed", task.State, task.Message)
	}
	if got, want := read(ran), "1\n2\n3\n3\n4\n5\n"; got != want {
		t.Errorf("steps ran as %q, want %q: only the interrupted step twice", got, want)
	}
}

func TestProgramReceivesCancelOnStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	received := filepath.Join(dir, "received")
	cfg := shell(`trap '' TERM; read -r turn
		case $turn in *'"history":[]'*) ;; *) exit 1 ;; esac
		if [ -e "$1" ]; then echo '{"type":"result","text":"again"}'; exit; fi
		: >"$1"; read -r line; echo "$line" >>"$1"`, received)
	cfg.Grace = 50 * time.Second
	r := newRunner(t, cfg)
	task := r.Submit(text("go"))
	await.True(t, "the program", func() bool { _, err := os.Stat(received); return err == nil })
	r.Restart()
	if got, want := read(received), "{\"type\":\"cancel\",\"reason\":\"stopping\"}\n"; got != want {
		t.Errorf("the program received %q, want %q", got, want)
	}
	if task := r.Wait(task.ID); task.State != a2a.StateCompleted || task.Message != "again" {
		t.Errorf("task = %s %q, want the result of the second execution", task.State, task.Message)
	}
}

func TestProgramReceivesMessagesDuringTheTurn(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`
		read -r turn
		echo '{"type":"receive"}'; read -r none
		[ "$none" = '{"type":"message","text":"","messages":[]}' ] || exit 1
		echo '{"type":"status","text":"ready"}'
		echo '{"type":"receive","wait":true}'; read -r line
		case $line in '{"type":"message","text":"more","messages":[{'*) echo '{"type":"result","text":"received"}' ;; *) exit 2 ;; esac`))
	task := r.Submit(text("go"))
	await.True(t, "the program's readiness", func() bool { return slices.Contains(statuses(r, task.ID), "ready") })
	more := text("more")
	more.TaskID = task.ID
	r.Submit(more)
	if task := r.Wait(task.ID); task.State != a2a.StateCompleted || task.Message != "received" {
		t.Errorf("task = %s %q, want the message received", task.State, task.Message)
	}
}

func TestUnreadMessageStartsAnotherTurn(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	r := newRunner(t, shell(`
		read -r turn
		echo '{"type":"status","text":"ready"}'
		while [ ! -e "$1" ]; do :; done
		echo '{"type":"artifact","name":"turn '$HOLDFAST_TURN'","text":"x"}'
		echo '{"type":"result"}'`, gate))
	task := r.Submit(text("one"))
	await.True(t, "the first turn", func() bool { return slices.Contains(statuses(r, task.ID), "ready") })
	more := text("two")
	more.TaskID = task.ID
	r.Submit(more)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := r.Wait(task.ID)
	if done.State != a2a.StateCompleted || len(done.Artifacts) != 2 || done.Artifacts[1].Name != "turn 2" {
		t.Errorf("task = %s (%s) with %+v, want two turns", done.State, done.Message, done.Artifacts)
	}
}

func TestPlainPrograms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		script, text string
		state        a2a.TaskState
		message, out string
	}{
		{script: `tr a-z A-Z`, text: "hello\nworld", state: a2a.StateCompleted, out: "HELLO\nWORLD"},
		{script: `true`, text: "x", state: a2a.StateCompleted},
		{script: `printf '{"type":"fail"}'`, text: "x", state: a2a.StateCompleted, out: `{"type":"fail"}`},
		{script: `printf 'part'; echo broken >&2; exit 5`, text: "x", state: a2a.StateFailed, message: "the program sh exited with status 5 without a result: broken", out: "part"},
		{script: `printf '\303'; sleep 0.05; printf '\251\377'`, text: "x", state: a2a.StateCompleted, out: "é\uFFFD"},
	} {
		cfg := shell(tt.script)
		cfg.Plain = true
		task := newRunner(t, cfg).Send(tt.text)
		if task.State != tt.state || task.Message != tt.message || task.Artifact("output") != tt.out {
			t.Errorf("%s = %s %q %q, want %s %q %q", tt.script, task.State, task.Message, task.Artifact("output"), tt.state, tt.message, tt.out)
		}
	}
}

func TestProgramDoesNotInheritServerSettings(t *testing.T) {
	t.Setenv("HOLDFAST_TOKEN", "secret")
	t.Setenv("EXECAGENT_TEST_VALUE", "passed on")
	t.Setenv("EXECAGENT_TEST_SECRET", "secret")
	inheriting := shell(`echo '{"type":"result","text":"'"$HOLDFAST_TOKEN$EXECAGENT_TEST_SECRET|$EXECAGENT_TEST_VALUE|$HOLDFAST_TASK_ID|$HOLDFAST_CONTEXT_ID|$HOLDFAST_TURN|$HOLDFAST_ATTEMPT"'"}'`)
	inheriting.Withhold = []string{"EXECAGENT_TEST_SECRET"}
	task := newRunner(t, inheriting).Send("go")
	if want := "|passed on|" + task.ID + "|" + task.ContextID + "|1|1"; task.Message != want {
		t.Errorf("environment = %q, want %q", task.Message, want)
	}
	cfg := shell(`echo '{"type":"result","text":"'"$EXECAGENT_TEST_VALUE|$MINE|$(pwd)"'"}'`)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Env, cfg.Dir = []string{"MINE=yes", "PATH=" + os.Getenv("PATH")}, dir
	if task := newRunner(t, cfg).Send("go"); task.Message != "|yes|"+dir {
		t.Errorf("environment and directory = %q, want %q", task.Message, "|yes|"+dir)
	}
}

func TestProgramThatCannotStartFailsTheTask(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/nowhere/at/all\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, execagent.Config{Command: []string{program}})
	want := "the program program could not be started: no such file or directory"
	if task := r.Send("go"); task.State != a2a.StateFailed || task.Message != want {
		t.Errorf("task = %s %q, want failed %q", task.State, task.Message, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg  execagent.Config
		want []string
	}{
		{execagent.Config{}, []string{"command is required"}},
		{execagent.Config{CommandLine: "  "}, []string{"command is required"}},
		{execagent.Config{Command: []string{"sh"}, CommandLine: "sh"}, []string{"must not both"}},
		{execagent.Config{CommandLine: "no-such-program-anywhere -x"}, []string{"no-such-program-anywhere", "not found"}},
		{execagent.Config{Command: []string{plain}}, []string{plain, "permission denied"}},
		{execagent.Config{Command: []string{dir}}, []string{dir}},
		{execagent.Config{CommandLine: `sh "unbalanced`}, []string{"unbalanced quotes"}},
		{execagent.Config{CommandLine: `cat | sort`}, []string{"shell operators", "sh -c"}},
		{execagent.Config{CommandLine: `cat > /etc/passwd`}, []string{"shell operators"}},
		{execagent.Config{CommandLine: "sh", Dir: plain, Timeout: -1, Grace: -1, MaxLine: -1, Env: []string{"X"}}, []string{"want a directory", "Timeout", "Grace", "MaxLine", "KEY=value"}},
	} {
		_, err := execagent.New(tt.cfg)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("New(%+v) = %v, want %q in it", tt.cfg, err, want)
			}
		}
	}
}

func TestCommandLinesAreSplitWithoutAShell(t *testing.T) {
	t.Parallel()
	r := newRunner(t, execagent.Config{CommandLine: `sh -c 'echo "{\"type\":\"result\",\"text\":\"$1|$2|$3\"}"' program "a b" '$HOME' c\ d`})
	if task := r.Send("go"); task.Message != "a b|$HOME|c d" {
		t.Errorf("words = %q (%s), want them unexpanded", task.Message, task.State)
	}
}

func TestDescribeNamesTheAgentAfterTheProgram(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"./tools/tally.py -v":                      "tally",
		"python3 -u tally.py":                      "python3",
		"python3 ../../examples/exec/wordcount.py": "wordcount",
		"sh '-c' 'echo hello'":                     "sh",
		"":                                         "program",
	} {
		var cfg holdfast.Config
		execagent.Config{CommandLine: command}.Describe(&cfg)
		if cfg.Name != want || len(cfg.Card.Skills) != 1 || cfg.Card.Skills[0].ID != want {
			t.Errorf("Describe(%s) = %s with %+v, want it named %s", command, cfg.Name, cfg.Card.Skills, want)
		}
	}
}

func TestManyProgramsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRunner(t, shell(`read -r turn; echo '{"type":"artifact","name":"out","text":"x"}'; echo '{"type":"result"}'`))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if task := r.Send("go"); task.State != a2a.StateCompleted || task.Artifact("out") != "x" {
				t.Errorf("task = %s %q, want completed", task.State, task.Message)
			}
		})
	}
	wg.Wait()
}

func TestProgramIsKilledWithTheServer(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), serverMode+"=echo $$ >"+pid+"; exec sleep 1000", "GORACE=exitcode=0")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the program", func() bool { return strings.TrimSpace(read(pid)) != "" })
	if hasEnded(pid) {
		t.Fatal("the program ended before the server was killed")
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ends a program with its parent")
	}
	await.True(t, "the end of the program", func() bool { return hasEnded(pid) })
}

func TestExamples(t *testing.T) {
	t.Parallel()
	const dir = "../../examples/exec/"
	t.Run("upper.sh", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, execagent.Config{CommandLine: dir + "upper.sh"})
		task := r.Send("Say \"hello\"\tto \\n\nthe world, 1 ü \x01.")
		if want := "SAY \"HELLO\"\tTO \\N\nTHE WORLD, 1 ü \x01."; task.State != a2a.StateCompleted || !strings.EqualFold(task.Artifact("upper"), want) || strings.Contains(task.Artifact("upper"), "world") {
			t.Errorf("task = %s (%s) %q, want %q", task.State, task.Message, task.Artifact("upper"), want)
		}
		asked := r.SendMessage(holdfasttest.Message(a2a.DataPart{Data: map[string]any{}}))
		if asked.State != a2a.StateInputRequired {
			t.Errorf("without text = %s (%s), want input-required", asked.State, asked.Message)
		}
		if task := r.Reply(asked.ID, "abc"); task.Artifact("upper") != "ABC" {
			t.Errorf("follow-up = %s %q, want ABC", task.State, task.Artifact("upper"))
		}
	})
	t.Run("wordcount.py", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("python3"); err != nil {
			t.Fatalf("needs python3; scripts/prerequisites installs it: %v", err)
		}
		r := newRunner(t, execagent.Config{CommandLine: "python3 " + dir + "wordcount.py"})
		asked := r.Send(" ")
		if asked.State != a2a.StateInputRequired {
			t.Fatalf("without text = %s (%s), want input-required", asked.State, asked.Message)
		}
		task := r.Reply(asked.ID, "the cat and the hat and the bat")
		if task.State != a2a.StateCompleted || task.Message != "8 words" || !strings.HasPrefix(task.Artifact("words"), "3 the\n2 and\n") {
			t.Errorf("task = %s %q %q, want 8 words", task.State, task.Message, task.Artifact("words"))
		}
		raw, err := json.Marshal(task.Artifacts)
		if err != nil || !strings.Contains(string(raw), `"words":8`) {
			t.Errorf("artifacts = %s, want the count as data", raw)
		}
		if got := statuses(r, task.ID); !slices.Contains(got, "counting") {
			t.Errorf("statuses = %q, want progress", got)
		}
	})
}
