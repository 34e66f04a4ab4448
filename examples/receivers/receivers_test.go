// Package receivers_test runs the example receivers.
package receivers_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

const token = "tok-s3cret"

// receivers are the command lines.
var receivers = map[string][]string{
	"go":     {"{go receiver}"},
	"python": {"python3", "python/receiver.py"},
	"node":   {"node", "node/receiver.js"},
}

// goReceiver is the path of the compiled Go receiver.
var goReceiver string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "receivers")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	goReceiver = filepath.Join(dir, "receiver")
	if out, err := exec.Command("go", "build", "-o", goReceiver, "./go").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the receiver in Go: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// receiver is a running receiver.
type receiver struct {
	t      *testing.T
	url    string
	stdout chan string // what it prints
	stderr chan string // what it says besides
}

// start runs a receiver with secrets until the test ends. port may be "0".
func start(t *testing.T, name, port string, secrets ...string) *receiver {
	t.Helper()
	args := slices.Clone(receivers[name])
	if args[0] == "{go receiver}" {
		args[0] = goReceiver
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Fatalf("%v: install it with ./scripts/prerequisites", err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+port, "WEBHOOK_TOKEN="+token, "WEBHOOK_SECRET="+strings.Join(secrets, " "))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, stdout: lines(out), stderr: lines(errs)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line := nextLine(t, r.stderr)
	url, ok := strings.CutPrefix(line, "listening on ")
	if !ok {
		t.Fatalf("first line of the receiver = %q, want its address", line)
	}
	r.url = url
	return r
}

func lines(r io.Reader) chan string {
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(r); s.Scan(); {
			out <- s.Text()
		}
	}()
	return out
}

// nextLine waits for the next line and returns it.
func nextLine(t *testing.T, lines chan string) string {
	t.Helper()
	select {
	case line, ok := <-lines:
		if !ok {
			t.Fatal("the receiver has ended")
		}
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("the receiver prints nothing")
	}
	return ""
}

func newSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

func signed(t *testing.T, secret, id, stamp, body string) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// post sends a body signed with secret, after change has modified the headers.
func (r *receiver) post(secret, id, body string, change func(h http.Header)) int {
	r.t.Helper()
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", signed(r.t, secret, id, stamp, body))
	if change != nil {
		change(req.Header)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func status(task string, sequence int) (id, body string) {
	id = fmt.Sprintf("%s-%d", task, sequence)
	return id, fmt.Sprintf(`{"event_id":%q,"sequence":%d,"timestamp":"2026-05-18T08:00:00.123456+00:00","kind":"status-update",`+
		`"task_id":%q,"context_id":"c","status":{"state":"working","timestamp":"2026-05-18T08:00:00.123456+00:00"},"final":false}`, id, sequence, task)
}

// A rejected request has no effect.
func TestForgedRequestsAreRejected(t *testing.T) {
	t.Parallel()
	for name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret, old := newSecret(), newSecret()
			r := start(t, name, "0", secret, old)
			id, body := status("t", 1)
			for _, c := range []struct {
				what   string
				secret string
				body   string
				change func(h http.Header)
			}{
				{"another secret", newSecret(), body, nil},
				{"no signature", secret, body, func(h http.Header) { h.Del("webhook-signature") }},
				{"an empty signature", secret, body, func(h http.Header) { h.Set("webhook-signature", "v1,") }},
				{"a signature of another version", secret, body, func(h http.Header) {
					h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1,", "v2,", 1))
				}},
				{"another id", secret, body, func(h http.Header) { h.Set("webhook-id", "other") }},
				{"another time", secret, body, func(h http.Header) {
					h.Set("webhook-timestamp", strconv.FormatInt(time.Now().Unix()-7, 10))
				}},
				{"no time", secret, body, func(h http.Header) { h.Del("webhook-timestamp") }},
				{"an invalid time", secret, body, sign(t, secret, id, "1e9", body)},
				{"a time of 400 digits", secret, body, sign(t, secret, id, strings.Repeat("9", 400), body)},
				{"a time of 5000 digits", secret, body, sign(t, secret, id, strings.Repeat("9", 5000), body)},
				{"a time six minutes ago", secret, body, sign(t, secret, id, strconv.FormatInt(time.Now().Unix()-360, 10), body)},
				{"a time in six minutes", secret, body, sign(t, secret, id, strconv.FormatInt(time.Now().Unix()+360, 10), body)},
				{"no token", secret, body, func(h http.Header) { h.Del("Authorization") }},
				{"another token", secret, body, func(h http.Header) { h.Set("Authorization", "Bearer "+token+"x") }},
			} {
				if got := r.post(c.secret, id, c.body, c.change); got != http.StatusUnauthorized {
					t.Errorf("%s: status = %d, want 401", c.what, got)
				}
				if said := nextLine(t, r.stderr); !strings.HasPrefix(said, "refused: ") {
					t.Errorf("%s: log = %q, want a refusal", c.what, said)
				}
			}
			for _, none := range []string{"[1]", "null", "no JSON", "\xff", strings.Repeat("[", 100_000), `{"event_id":1,"task_id":{},"sequence":"x"}`} {
				if got := r.post(secret, "x", none, nil); got != http.StatusBadRequest {
					t.Errorf("body %.20q: status = %d, want 400", none, got)
				}
			}
			// A timestamp four minutes ago and the old secret are valid.
			if got := r.post(old, id, body, sign(t, old, id, strconv.FormatInt(time.Now().Unix()-240, 10), body)); got != http.StatusNoContent {
				t.Errorf("valid request: status = %d, want 204", got)
			}
			if got := nextLine(t, r.stdout); got != "t 1 working" {
				t.Errorf("printed %q, want only t 1 working", got)
			}
		})
	}
}

// sign returns a change that signs the request at another time, with several signatures.
func sign(t *testing.T, secret, id, stamp, body string) func(h http.Header) {
	return func(h http.Header) {
		h.Set("webhook-timestamp", stamp)
		h.Set("webhook-signature", "v1a,AAAA "+signed(t, newSecret(), id, stamp, body)+" "+signed(t, secret, id, stamp, body))
	}
}

func TestRepetitionsAndOrder(t *testing.T) {
	t.Parallel()
	for name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := newSecret()
			r := start(t, name, "0", secret)
			for _, c := range []struct {
				task     string
				sequence int
				want     string // "" for a duplicate
			}{
				{"a", 3, "a 3 working"}, // a webhook registered late
				{"a", 3, ""},
				{"b", 1, "b 1 working"},
				{"a", 4, "a 4 working"},
				{"a", 7, "a 7 working (some before it are missing)"},
				{"a", 5, "a 5 working (late)"},
				{"a", 5, ""},
				{"a", 7, ""},
				{"a", 8, "a 8 working"},
			} {
				id, body := status(c.task, c.sequence)
				if got := r.post(secret, id, body, nil); got != http.StatusNoContent {
					t.Errorf("%s %d: status = %d, want 204", c.task, c.sequence, got)
				}
				if c.want == "" {
					if got, want := nextLine(t, r.stderr), fmt.Sprintf("duplicate: %s %d", c.task, c.sequence); got != want {
						t.Errorf("log = %q, want %q", got, want)
					}
				} else if got := nextLine(t, r.stdout); got != c.want {
					t.Errorf("printed %q, want %q", got, c.want)
				}
			}
		})
	}
}

// program requires input, and replies with an artifact.
const program = `read -r turn
case "$turn" in
'{"type":"turn","text":"go"'*) echo '{"type":"require_input","text":"which colour?"}' ;;
*) echo '{"type":"artifact","name":"colours","text":"blue","last":true}'
   echo '{"type":"result","text":"done"}' ;;
esac
`

func TestReceiversPrintAgentEvents(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, "--storage", "memory", "--exec", "sh "+script, "--webhook-allow-nets", "127.0.0.0/8")
	for name := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, port, _ := net.SplitHostPort(testport.Addr(t))
			_, out := runCommand(t, server, "send", "--json", "--webhook", "http://127.0.0.1:"+port+"/", "--webhook-token", token, "go")
			var task struct{ ID string }
			decode(t, out, &task)
			// Nothing listens yet. Setting the webhook returns the secret and keeps the token.
			_, out = runCommand(t, server, "webhooks", "set", task.ID, "http://127.0.0.1:"+port+"/", "--json")
			var set struct {
				PushNotificationConfig struct{ SigningSecret string }
			}
			decode(t, out, &set)
			r := start(t, name, port, set.PushNotificationConfig.SigningSecret)
			want := []string{"1 working", "2 input-required: which colour?"}
			for _, w := range want {
				if got := nextLine(t, r.stdout); got != task.ID+" "+w {
					t.Errorf("printed %q, want the task and %q", got, w)
				}
			}
			if code, out := runCommand(t, server, "send", "--task", task.ID, "blue"); code != 0 {
				t.Fatalf("send = %d, %s", code, out)
			}
			for _, w := range []string{"3 working", "4 artifact colours (complete)", "5 completed: done (final)"} {
				if got := nextLine(t, r.stdout); got != task.ID+" "+w {
					t.Errorf("printed %q, want the task and %q", got, w)
				}
			}
			// A replay prints only duplicates.
			runCommand(t, server, "webhooks", "replay", task.ID, "--from", "1")
			for i := range 5 {
				if got, want := nextLine(t, r.stderr), fmt.Sprintf("duplicate: %s %d", task.ID, i+1); got != want {
					t.Errorf("log = %q, want %q", got, want)
				}
			}
		})
	}
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

// serve runs holdfast serve in this process until the test ends.
func serve(t *testing.T, args ...string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, w := io.Pipe()
	var log bytes.Buffer
	served := make(chan int, 1)
	go func() {
		defer w.Close()
		served <- cli.Main(ctx, cli.Program{Args: append([]string{"holdfast", "serve", "--json", "--addr", "127.0.0.1:0"}, args...), Stdout: w, Stderr: &log})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-served; code != 0 || t.Failed() {
			t.Logf("serve = %d, log:\n%s", code, &log)
		}
	})
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL string }
	decode(t, string(line), &ready)
	return ready.URL
}

// runCommand runs a holdfast command and returns its exit code and output. The code 23 means
// that the task requires input.
func runCommand(t *testing.T, server string, args ...string) (code int, stdout string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	code = cli.Main(ctx, cli.Program{Args: append([]string{"holdfast"}, args...), Environ: []string{"HOLDFAST_SERVER=" + server}, Stdout: &out, Stderr: &errs})
	if code != 0 && code != 23 {
		t.Fatalf("holdfast %s = %d: %s%s", strings.Join(args, " "), code, &out, &errs)
	}
	return code, out.String()
}
