package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/cli/full"
	"github.com/holdfast-dev/holdfast/cli/suites"
	"github.com/holdfast-dev/holdfast/internal/notes"
	"github.com/holdfast-dev/holdfast/internal/testport"
	"github.com/holdfast-dev/holdfast/store/contract"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	program := func(parts func() cli.Parts) func() {
		return func() { os.Exit(cli.Process(parts())) }
	}
	testscript.Main(m, map[string]func(){"holdfast": program(everything), "holdfast-notes": program(withNotes)})
}

// withNotes has a contract that Holdfast does not know.
func withNotes() cli.Parts {
	parts := everything()
	parts.Kinds, parts.Commands = []*contract.Kind{notes.Kind}, []command.Command{notes.Command}
	parts.Suites = suites.Of(notes.Suite)
	return parts
}

// everything has all parts that are in this module.
func everything() cli.Parts {
	parts := full.Parts()
	parts.Suites = suites.Of()
	return parts
}

// TestScripts runs the scripts in testdata/script. The script command "agent FLAGS..." starts a
// server and sets HOLDFAST_SERVER.
func TestScripts(t *testing.T) {
	t.Parallel()
	cmds := map[string]func(*testscript.TestScript, bool, []string){"agent": startAgent, "id": saveID, "port": freePort, "await": awaitOutput, "keep": keepCmd}
	maps.Copy(cmds, webhooksCmds)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Values[stopKey{}] = new(func())
			return nil
		},
		UpdateScripts:   *update,
		ContinueOnError: true,
		Cmds:            cmds,
	})
}

// The testscript commands "stop" and "skip" would end a script early.
func TestScriptsHaveNoEarlyEnd(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts = %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(text), "\n-- ")
		for line := range strings.Lines(script) {
			if f := strings.Fields(line); len(f) > 0 && (f[len(f)-1] == "stop" || slices.Contains(f, "skip")) {
				t.Errorf("%s: %q ends the script", file, line)
			}
		}
	}
}

// startAgent runs a server in this process until the script ends.
func startAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("agent cannot be negated")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	stderr, err := os.Create(ts.MkAbs("agent.log"))
	ts.Check(err)
	done := make(chan int, 1)
	go func() {
		defer w.Close()
		defer stderr.Close()
		done <- cli.Main(ctx, cli.Program{
			Parts:  everything(),
			Args:   append([]string{"holdfast", "serve", "--json", "--addr", "127.0.0.1:0", "--data", ts.MkAbs("data"), "--stop-grace", "1s"}, args...),
			Stdout: w, Stderr: stderr,
		})
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if code := <-done; code != 0 {
			ts.Logf("the agent ended with code %d:\n%s", code, ts.ReadFile("agent.log"))
		}
	})
	ts.Defer(stop)
	*ts.Value(stopKey{}).(*func()) = stop
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		ts.Fatalf("the agent did not start: %v\n%s", err, ts.ReadFile("agent.log"))
	}
	var ready struct{ URL string }
	ts.Check(json.Unmarshal(line, &ready))
	ts.Setenv("HOLDFAST_SERVER", ready.URL)
	ts.Setenv("AGENT_HTTPS", strings.Replace(ready.URL, "http://", "https://", 1))
}

// saveID sets ID to the first line of stdout, or to the id of the task in JSON.
func saveID(ts *testscript.TestScript, _ bool, _ []string) {
	text := ts.ReadFile("stdout")
	var task struct{ ID string }
	if json.Unmarshal([]byte(text), &task) != nil {
		task.ID, _, _ = strings.Cut(text, "\n")
	}
	if task.ID == "" {
		ts.Fatalf("no id in %q", text)
	}
	ts.Setenv("ID", task.ID)
}

// freePort sets PORT to an unused port.
func freePort(ts *testscript.TestScript, _ bool, _ []string) {
	port, err := testport.New()
	ts.Check(err)
	ts.Setenv("PORT", strconv.Itoa(port))
}

// awaitOutput repeats a command until it succeeds with output.
func awaitOutput(ts *testscript.TestScript, _ bool, args []string) {
	untilShown(ts, func(out string) bool { return out != "" }, args...)
}

// run runs a command in this process.
func run(t *testing.T, stdin string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out, errs strings.Builder
	code = cli.Main(ctx, cli.Program{
		Parts: everything(),
		Args:  append([]string{"holdfast"}, args...), Environ: environ,
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

// serveForTest runs a server in this process until the test ends.
func serveForTest(t *testing.T, args ...string) (url string) {
	t.Helper()
	return serveWith(t, everything(), args...)
}

// serveWith is serveForTest with other parts.
func serveWith(t *testing.T, parts cli.Parts, args ...string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, w := io.Pipe()
	served := make(chan int, 1)
	go func() {
		defer w.Close()
		served <- cli.Main(ctx, cli.Program{Parts: parts, Args: append([]string{"holdfast", "serve", "--json", "--addr", "127.0.0.1:0"}, args...), Stdout: w, Stderr: io.Discard})
	}()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	return ready.URL
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{
		"", "serve", "send", "tasks", "tasks list", "tasks get", "tasks follow", "tasks cancel", "tasks delete", "tasks feedback", "call", "card", "card verify",
		"config", "migrate", "migrate up", "migrate status", "migrate plan", "export", "import", "version", "help", "exit-codes", "environment",
		"chat", "contexts", "contexts list", "contexts get", "contexts create", "contexts update", "contexts archive", "contexts clear",
		"webhooks", "webhooks list", "webhooks get", "webhooks set", "webhooks delete", "webhooks attempts", "webhooks dead", "webhooks replay", "webhooks test",
		"blobs", "blobs list", "blobs show", "blobs get", "blobs put", "blobs delete", "blobs rotate-links", "history", "history list", "history show", "history search", "history export",
		"history clear", "memory", "memory list", "memory show", "memory search", "memory forget", "documents", "documents collections", "documents list", "documents add", "documents search", "documents delete", "documents export", "graph", "graph list", "graph entities", "graph show", "graph query", "graph export", "graph forget", "boards", "boards list", "boards show", "forget", "storage", "storage check", "audit", "audit list",
	} {
		t.Run("help "+topic, func(t *testing.T) {
			t.Parallel()
			code, got, stderr := run(t, "", nil, append([]string{"help"}, strings.Fields(topic)...)...)
			if code != 0 || stderr != "" {
				t.Errorf("help %s = %d and %q on stderr, want 0 and nothing", topic, code, stderr)
			}
			if strings.ContainsAny(got, "“”") {
				t.Errorf("help %s has typographic quotes, which shells do not accept", topic)
			}
			for line := range strings.Lines(got) {
				if len(line) > 101 && !strings.Contains(line, "holdfast ") {
					t.Errorf("help %s: line of %d characters: %s", topic, len(line), line)
				}
			}
			compare(t, filepath.Join("testdata/help", strings.ReplaceAll("holdfast "+topic, " ", "-")+".txt"), got)
		})
	}
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	golden = strings.ReplaceAll(golden, "-.txt", ".txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("text differs from %s (go test ./cli -update rewrites it); got:\n%s", golden, got)
	}
}

func TestHelpFlagMatchesHelpCommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"send"}, {"tasks", "list"}} {
		_, byCommand, _ := run(t, "", nil, append([]string{"help"}, args...)...)
		code, byFlag, _ := run(t, "", nil, append(args, "--help")...)
		if code != 0 || byFlag != byCommand {
			t.Errorf("%v --help = %d, %q; want 0 and the output of help", args, code, byFlag)
		}
	}
	if code, text, _ := run(t, "", nil); code != 0 || !strings.Contains(text, "60 seconds") {
		t.Errorf("holdfast alone = %d, %q; want the tour", code, text)
	}
}

// The first signal stops a server gracefully; after the second one Main returns at once.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(t.Context(), cli.Program{
			Parts:  everything(),
			Args:   []string{"holdfast", "serve", "--json", "--addr", "127.0.0.1:0", "--storage", "memory", "--exec", "sleep 30", "--exec-plain", "--stop-grace", "1s"},
			Stdout: w, Stderr: io.Discard, Signals: signals,
		})
	}()
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "", nil, "send", "--no-wait", "--server", ready.URL, "x"); code != 0 {
		t.Fatalf("send = %d: %s", code, stderr)
	}
	signals <- os.Interrupt
	signals <- os.Interrupt
	if got := <-code; got != 130 {
		t.Errorf("code after two signals = %d, want 130", got)
	}
}

// An interrupted send does not cancel the task and prints how to follow it.
func TestInterruptedSendLeavesTheTask(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	served := make(chan int, 1)
	go func() {
		served <- cli.Main(ctx, cli.Program{
			Parts:  everything(),
			Args:   []string{"holdfast", "serve", "--json", "--addr", "127.0.0.1:0", "--storage", "memory", "--exec", "sleep 600", "--exec-plain", "--stop-grace", "100ms"},
			Stdout: w, Stderr: io.Discard,
		})
	}()
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	stderr, stderrWriter := io.Pipe()
	code := make(chan int, 1)
	go func() {
		defer stderrWriter.Close()
		code <- cli.Main(t.Context(), cli.Program{
			Parts: everything(),
			Args:  []string{"holdfast", "send", "--stream", "--server", ready.URL, "x"}, Stdout: io.Discard, Stderr: stderrWriter, Signals: signals,
		})
	}()
	var text strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if lines.Text() == "working" {
			signals <- os.Interrupt
		}
	}
	if got := <-code; got != 130 || !strings.Contains(text.String(), "The task continues. Follow it: holdfast tasks follow --server") {
		t.Errorf("interrupted send = %d, %q, want 130 and how to follow the task", got, &text)
	}
	if _, list, _ := run(t, "", nil, "tasks", "list", "--server", ready.URL, "--state", "working"); !strings.Contains(list, "working") {
		t.Errorf("tasks list = %q, want the task still working", list)
	}
	cancel()
	if got := <-served; got != 0 {
		t.Errorf("serve = %d, want 0 also if a task was requeued", got)
	}
}

// A resumed chat first follows the running task.
func TestResumedChatFollowsRunningTask(t *testing.T) {
	t.Parallel()
	done := filepath.Join(t.TempDir(), "done")
	program := `sh -c 'read -r x; while [ "$x" = hold ] && [ ! -e "` + done + `" ]; do sleep 0.05; done; echo "did $x"'`
	url := serveForTest(t, "--storage", "memory", "--exec", program, "--exec-plain", "--stop-grace", "100ms")
	if code, _, stderr := run(t, "", nil, "send", "--no-wait", "--server", url, "--context", "talk", "hold"); code != 0 {
		t.Fatalf("send = %d: %s", code, stderr)
	}
	stderr, stderrWriter := io.Pipe()
	code := make(chan int, 1)
	var out strings.Builder
	go func() {
		defer stderrWriter.Close()
		code <- cli.Main(t.Context(), cli.Program{
			Parts: everything(),
			Args:  []string{"holdfast", "chat", "--server", url, "--context", "talk"}, Stdin: strings.NewReader("after\n"), Stdout: &out, Stderr: stderrWriter,
		})
	}()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if lines.Text() == "the agent is still working on this task:" {
			if err := os.WriteFile(done, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	if got, want := <-code, "did hold\ndid after\n"; got != 0 || out.String() != want {
		t.Errorf("resumed chat = %d, %q, want 0, %q", got, out.String(), want)
	}
}
