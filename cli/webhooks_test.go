package cli_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// webhooksCmds are script commands for webhooks.
var webhooksCmds = map[string]func(*testscript.TestScript, bool, []string){
	"receiver": startReceiver, "awaitsent": awaitSent, "awaitdead": awaitDead, "stopagent": stopAgent, "code": wantCode,
}

// startReceiver runs an HTTP server for webhooks and files until the script ends, and sets RECEIVER to
// its URL. It answers requests of other user agents with 418, and others with 200 or the status of
// the path; "/once" is rejected twice. TLSPORT is the port of an HTTPS server with an untrusted
// certificate.
func startReceiver(ts *testscript.TestScript, _ bool, _ []string) {
	var once atomic.Int64
	over := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, version, _ := strings.Cut(r.UserAgent(), "/"); name != "holdfast" || version == "" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		switch r.URL.Path {
		case "/refuse":
			w.WriteHeader(http.StatusNotFound)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/story.txt":
			_, _ = io.WriteString(w, "A lighthouse stands on a cliff above the bay. The lamp of the lighthouse was lit by hand. Bananas are yellow.")
		case "/slow":
			<-over
		case "/once":
			if once.Add(1) <= 2 {
				w.WriteHeader(http.StatusNotFound)
			}
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	ts.Defer(func() {
		close(over)
		plain.Close()
		secure.Close()
	})
	ts.Setenv("RECEIVER", plain.URL)
	ts.Setenv("TLSPORT", secure.URL[strings.LastIndexByte(secure.URL, ':')+1:])
}

// awaitSent waits until the webhook of task ID has received the given number of events.
func awaitSent(ts *testscript.TestScript, _ bool, args []string) {
	untilShown(ts, func(out string) bool { return strings.Contains(out, `"delivered":`+args[0]+`,"pending":false`) }, "webhooks", "list", ts.Getenv("ID"), "--json")
}

// awaitDead waits until the given number of dead letters exists.
func awaitDead(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	untilShown(ts, func(out string) bool { return strings.Count(out, `"reason"`) == want }, "webhooks", "dead", "--json")
}

// stopAgent stops the agent that was started last, see startAgent.
func stopAgent(ts *testscript.TestScript, _ bool, _ []string) {
	stop, _ := ts.Value(stopKey{}).(*func())
	(*stop)()
}

// stopKey is the key of the script value that stops the agent.
type stopKey struct{}

// untilShown repeats a command until its output meets a condition.
func untilShown(ts *testscript.TestScript, met func(stdout string) bool, args ...string) {
	await.Success(ts, func() error {
		var out, errs strings.Builder
		code := cli.Main(context.Background(), cli.Program{
			Args: append([]string{"holdfast"}, args...), Environ: []string{"HOLDFAST_SERVER=" + ts.Getenv("HOLDFAST_SERVER")}, Stdout: &out, Stderr: &errs,
		})
		if code != 0 || !met(out.String()) {
			return fmt.Errorf("output of %s: %s%s", args, &out, &errs)
		}
		return nil
	})
}

// wantCode runs a command and checks its exit code.
func wantCode(ts *testscript.TestScript, _ bool, args []string) {
	var out, errs strings.Builder
	code := cli.Main(context.Background(), cli.Program{
		Args: append([]string{"holdfast"}, args[1:]...), Environ: []string{"PUSH_ALLOW_NETS=" + ts.Getenv("PUSH_ALLOW_NETS")}, Stdout: &out, Stderr: &errs,
	})
	if got := strconv.Itoa(code); got != args[0] {
		ts.Fatalf("%s = %d, want %s: %s%s", args[1:], code, args[0], &out, &errs)
	}
}
