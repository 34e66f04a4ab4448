package cli

import (
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

func TestExitTableMatchesErrorCodes(t *testing.T) {
	t.Parallel()
	number := map[string]bool{}
	for _, row := range exitTable {
		for _, code := range row.codes {
			number[string(code)] = true
			if got := code.ExitCode(); got != row.code {
				t.Errorf("%s is in row %d, want %d", code, row.code, got)
			}
		}
	}
	for _, code := range []a2a.Code{
		a2a.CodeParse, a2a.CodeInvalidRequest, a2a.CodeMethodNotFound, a2a.CodeInvalid, a2a.CodeInternal, a2a.CodeTaskNotFound,
		a2a.CodeTaskNotCancelable, a2a.CodePushNotSupported, a2a.CodeUnsupported, a2a.CodeContentType, a2a.CodeInvalidAgentResponse,
		a2a.CodeNoExtendedCard, a2a.CodeContextNotFound, a2a.CodeContextNotCancelable, a2a.CodeUnauthenticated, a2a.CodeDenied, a2a.CodeConflict, a2a.CodeTooLarge,
		a2a.CodeExhausted, a2a.CodeUnavailable, a2a.CodePushConfigNotFound,
	} {
		if !number[string(code)] {
			t.Errorf("%s is in no row", code)
		}
	}
	for _, s := range a2a.States() {
		listed := slices.ContainsFunc(exitTable, func(r exitRow) bool { return slices.Contains(r.states, s) })
		if s.Final() && s != a2a.StateBidLost && !listed {
			t.Errorf("final state %s has no exit code", s)
		}
		if s.Final() && s != a2a.StateCompleted && s != a2a.StateBidLost && exitOfState(s) == exitOK {
			t.Errorf("exit code of state %s = 0, want another", s)
		}
	}
}

// Every flag of serve has the environment variable HOLDFAST_<FLAG>.
func TestEveryFlagOfServeHasAVariable(t *testing.T) {
	t.Parallel()
	var g grammar
	parser, err := newApp(Program{}).parser(&g)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Children {
		if node.Name != "serve" {
			continue
		}
		for _, flag := range node.Flags {
			want := envPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if flag.Name == "token" {
				want = "HOLDFAST_TOKENS" // HOLDFAST_TOKEN is for clients
			}
			if got := envName(flag.Value); got != want {
				t.Errorf("variable of --%s = %q, want %s", flag.Name, got, want)
			}
		}
	}
}

// A misspelled field would leave its flag without effect.
func TestFlagsNameExistingFields(t *testing.T) {
	t.Parallel()
	a := newApp(Program{})
	var g grammar
	if _, err := a.parser(&g); err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, flag := range a.set.serveFlags {
		at, field := configOf(flag)
		if field == "" {
			continue
		}
		named++
		for name := range strings.SplitSeq(field, ".") {
			f, ok := at.FieldByName(name)
			if !ok {
				t.Errorf("--%s sets %s: %s has no field %s", flag.Name, fieldOf(flag), at, name)
				break
			}
			at = f.Type
		}
	}
	if named < 50 {
		t.Errorf("%d flags name a field, want at least 50", named)
	}
}

// A command fails if it cannot write its output, for example to a full disk.
func TestUnwrittenOutputIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"help"}, {"help", "send"}, {"version", "--json"}} {
		var stderr strings.Builder
		code := Main(t.Context(), Program{Args: append([]string{"holdfast"}, args...), Stdout: fullDisk{}, Stderr: &stderr})
		if code != exitFailure || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("holdfast %s on a full disk = exit code %d, %q, want %d and the cause", args, code, stderr.String(), exitFailure)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "\x1b[31mred\x1b[0m": "[31mred[0m", "a\rb\x07\u009b1m": "ab1m", "bad \xff": "bad \ufffd",
		"a\u202eb": "ab", "ü 漢 🙂": "ü 漢 🙂",
	} {
		if got := command.Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTotalText(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0": totalText(0, false), "999": totalText(999, false), "1,000": totalText(1000, false),
		"1,234,567": totalText(1234567, false), "10,000+": totalText(10_000, true),
	} {
		if got != want {
			t.Errorf("totalText() = %s, want %s", got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{{"a  b\n\nc", 0, "a b c"}, {"abcdef", 4, "abc…"}, {"abcd", 4, "abcd"}, {"", 4, ""}, {"üüüüü", 3, "üü…"}} {
		if got := command.OneLine(tt.in, tt.width); got != tt.want {
			t.Errorf("oneLine(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

func TestQuoteShell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "''", "http://a:1/": "http://a:1/", "it's": `'it'\''s'`, "a b": "'a b'", "$x": "'$x'"} {
		if got := quoteShell(in); got != want {
			t.Errorf("quoteShell(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestCallName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"holdfast": "holdfast", "./bin/holdfast": "./bin/holdfast", "/usr/local/bin/holdfast": "holdfast",
		"/tmp/go-build123/b001/exe/holdfast": "go run ./cmd/holdfast",
	} {
		if got := callName(in); got != want {
			t.Errorf("callName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMediaType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, content, want string }{
		{"a.md", "", "text/markdown"},
		{"A.PDF", "", "application/pdf"},
		{"a.html", "", "text/html"},
		{"a.json", "{}", "application/json"},
		{"README", "hello", "text/plain"},
		{"", "%PDF-1.7", "application/pdf"},
		{"", "<html>", "text/html"},
		{"x", "\x00\x01\x02", "application/octet-stream"},
		{"", "\xff\xfeh\x00", "text/plain; charset=utf-16le"},
		{"a.png", "", "image/png"},
	} {
		if got := command.MediaType(tt.name, []byte(tt.content)); got != tt.want {
			t.Errorf("mediaType(%q, %q) = %q, want %q", tt.name, tt.content, got, tt.want)
		}
	}
}

func TestBannerURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "0.0.0.0:80": "http://127.0.0.1:80", "[::]:80": "http://127.0.0.1:80",
		"[::1]:80": "http://[::1]:80", "192.0.2.1:80": "http://192.0.2.1:80",
	} {
		addr, err := net.ResolveTCPAddr("tcp", in)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&banner{addr: addr}).url(); got != want {
			t.Errorf("url of %s = %s, want %s", in, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flag    string
		environ []string
		want    string
	}{
		{"", nil, "127.0.0.1:3773"},
		{"", []string{"PORT=80"}, "127.0.0.1:80"},
		{"", []string{"HOST=0.0.0.0"}, "0.0.0.0:3773"},
		{"", []string{"HOST=::", "PORT=80"}, "[::]:80"},
		{"", []string{"HOST=[::1]", "PORT="}, "[::1]:3773"},
		{"a:1", []string{"HOST=b", "PORT=2"}, "a:1"},
	} {
		c := serveCmd{Addr: tt.flag}
		if got := c.address(newApp(Program{Environ: tt.environ})); got != tt.want {
			t.Errorf("address(%q, %v) = %s, want %s", tt.flag, tt.environ, got, tt.want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, file, "# who\n\n  file-secret = carol\nbad-secret\n")
	c := serveCmd{accessFlags: accessFlags{Tokens: []string{"YWxpY2U==alice", "did-secret=did:bindu:bob:1", "did-secret=x", "nothing", "=x", "x="}, TokensFile: file}}
	_, err := c.tokens()
	for _, want := range []string{"--token: entry 3 repeats a token", "--token: entry 4 is not of the form", "--token: entry 5", "--token: entry 6", "line 4 of " + file} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tokens() = %v, want %q in it", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("tokens() = %v, want no token in it", err)
	}

	writeFile(t, file, "file-secret=carol # of accounting\n  # nobody=x\n")
	c = serveCmd{accessFlags: accessFlags{Tokens: []string{"YWxpY2U==alice", "did-secret=did:bindu:bob:1"}, TokensFile: file}}
	tokens, err := c.tokens()
	if err != nil || len(tokens) != 3 || tokens[0].Token != "YWxpY2U=" || tokens[0].Principal.ID != "alice" ||
		tokens[1].Principal.ID != "did:bindu:bob:1" || tokens[2].Principal.ID != "carol" {
		t.Errorf("tokens() = %d tokens, %v, want the tokens of alice, bob and carol", len(tokens), err)
	}

	writeFile(t, file, "# none yet\n")
	if _, err := (&serveCmd{accessFlags: accessFlags{TokensFile: file}}).tokens(); err == nil {
		t.Error("tokens() of an empty file = nil, want an error: no tokens would disable authentication")
	}
}

func TestDeadLettersOfAWebhookAreCounted(t *testing.T) {
	t.Parallel()
	page := &a2a.ListDeadLettersResult{DeadLetters: []a2a.DeadLetter{{TaskID: "t", ConfigID: "w"}, {TaskID: "t", ConfigID: "w"}}}
	for _, c := range []struct{ id, next, want string }{
		{"w", "", "2"}, {"v", "", ""}, {"w", "more", "2+"}, {"v", "more", "?"},
	} {
		page.NextPageToken = c.next
		dead := countDead(page)
		w := &a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: c.id}}
		if got := dead.of("", w); got != c.want {
			t.Errorf("dead letters of %s, next page %q = %q, want %q", c.id, c.next, got, c.want)
		}
	}
}

// A store that cannot be opened is no error of a server.
func TestStoreThatCannotBeOpenedIsALocalError(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		local(a2a.Errorf(a2a.CodeInternal, "schema holdfast is empty")):  exitFailure,
		local(errors.New("mkdir /proc/nope: no such file or directory")): exitFailure,
		local(a2a.Errorf(a2a.CodeUnavailable, "in use")):                 7,
		a2a.Errorf(a2a.CodeInternal, "of a server"):                      10,
	} {
		if got := exitOf(err); got != want {
			t.Errorf("exit code of %v = %d, want %d", err, got, want)
		}
	}
}
