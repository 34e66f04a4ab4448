// Pseudo-terminals are opened in this way on Linux only.

package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// terminal is the user's side of a pseudo-terminal.
type terminal struct {
	t     *testing.T
	f     *os.File
	mu    sync.Mutex
	shown strings.Builder // without escape sequences
	seen  int
}

func newTerminal(t *testing.T) (person *terminal, program *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	person = &terminal{t: t, f: master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		person.read()
	}()
	t.Cleanup(func() {
		program.Close()
		<-done // closing the program's side ends the reads of this side
		master.Close()
	})
	return person, program
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

func (p *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := p.f.Read(buf)
		p.mu.Lock()
		p.shown.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *terminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return escapes.ReplaceAllString(p.shown.String(), "")
}

// await waits until the terminal shows want after the previously awaited text.
func (p *terminal) await(want string) {
	p.t.Helper()
	await.Success(p.t, func() error {
		text := p.text()
		i := strings.Index(text[p.seen:], want)
		if i < 0 {
			return fmt.Errorf("the terminal does not show %q; it shows\n%s", want, text)
		}
		p.seen += i + len(want)
		return nil
	})
}

func (p *terminal) typeIn(keys string) {
	p.t.Helper()
	if _, err := p.f.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	const program = `sh -c 'read -r x; case "$x" in hold) exec sleep 600 ;; esac; echo "did $x"'`
	url := serveForTest(t, "--storage", "memory", "--exec", program, "--exec-plain", "--stop-grace", "100ms")
	if code, _, stderr := run(t, "", nil, "send", "--server", url, "--context", "talk", "before"); code != 0 {
		t.Fatalf("send = %d, %s", code, stderr)
	}
	person, tty := newTerminal(t)
	signals := make(chan os.Signal, 2)
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(t.Context(), cli.Program{
			Args:  []string{"holdfast", "chat", "--server", url, "--context", "talk"},
			Stdin: tty, Stdout: tty, Stderr: tty, Signals: signals, Environ: []string{"TERM=xterm"},
		})
	}()
	// Line editor keys work, and pasted text is one message.
	person.await("Ctrl-D ends the chat.")
	person.await("you")
	person.await("  before")
	person.await("agent")
	person.await("  did before")
	person.await("> ")
	person.typeIn("wrong\x15onf\x7fe\r")
	person.await("did one")
	person.await("> ")
	person.typeIn("\x1b[200~two\rthree\x1b[201~\r")
	person.await("… ")
	person.await("did two")

	// Ctrl-C cancels the running task, and the chat continues.
	person.await("> ")
	person.typeIn("hold\r")
	person.await("working")
	signals <- os.Interrupt
	person.await("canceling; press Ctrl-C again to end the chat")
	person.await("canceled")

	// At the prompt Ctrl-C discards the line; a second one ends the chat.
	person.await("> ")
	person.typeIn("never said\x03")
	person.await("press Ctrl-C again to end the chat")
	person.await("> ")
	person.typeIn("four\r")
	person.await("did four")
	person.await("> ")
	person.typeIn("\x03")
	person.await("press Ctrl-C again to end the chat")
	person.typeIn("\x03")
	person.await("Continue later: holdfast chat --server " + url + " --context talk")
	if got := <-code; got != 130 {
		t.Errorf("chat ended by Ctrl-C = %d, want 130", got)
	}
	if _, list, _ := run(t, "", nil, "tasks", "list", "--server", url); strings.Contains(list, "never") || strings.Count(list, "completed") != 4 || strings.Count(list, "canceled") != 1 {
		t.Errorf("tasks list = %q, want four completed and one canceled", list)
	}
}

// The second Ctrl-C ends the chat if the agent does not answer the cancellation.
func TestSecondInterruptEndsChat(t *testing.T) {
	t.Parallel()
	unresponsive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != http.MethodPost:
			http.NotFound(w, r)
			return
		case strings.Contains(string(body), "message/stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\ndata: "+`{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}}`+"\n\n")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(unresponsive.Close)
	person, tty := newTerminal(t)
	signals := make(chan os.Signal, 2)
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(t.Context(), cli.Program{
			Args: []string{"holdfast", "chat", "--server", unresponsive.URL, "hello"}, Stdin: tty, Stdout: tty, Stderr: tty, Signals: signals,
		})
	}()
	person.await("working")
	signals <- os.Interrupt
	person.await("canceling; press Ctrl-C again to end the chat")
	signals <- os.Interrupt
	person.await("Continue later: holdfast chat --server " + unresponsive.URL + " --context c")
	if got := <-code; got != 130 {
		t.Errorf("chat = %d, want 130", got)
	}
}

func TestClearAsksForConfirmationOnTerminal(t *testing.T) {
	t.Parallel()
	url := serveForTest(t, "--storage", "memory", "--agent", "echo")
	for _, tt := range []struct {
		keys string
		code int
	}{{"n\n", 1}, {"\n", 1}, {"\x04", 1}, {"y\n", 0}} {
		if code, _, stderr := run(t, "", nil, "send", "--server", url, "--context", "talk", "hello"); code != 0 {
			t.Fatalf("send = %d, %s", code, stderr)
		}
		person, tty := newTerminal(t)
		code := make(chan int, 1)
		go func() {
			code <- cli.Main(t.Context(), cli.Program{
				Args: []string{"holdfast", "contexts", "clear", "--server", url, "talk"}, Stdin: tty, Stdout: tty, Stderr: tty,
			})
		}()
		person.await("Delete context talk with ")
		person.await(" permanently? [y/N] ")
		person.typeIn(tt.keys)
		if got := <-code; got != tt.code {
			t.Errorf("contexts clear answered by %q = %d, want %d; it showed\n%s", tt.keys, got, tt.code, person.text())
		}
		if code, _, _ := run(t, "", nil, "contexts", "get", "--server", url, "talk"); (code == 0) != (tt.code != 0) {
			t.Errorf("contexts get after the answer %q = %d, want 0 unless the answer was yes", tt.keys, code)
		}
	}
}
