package holdfast_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

// A trip is what the agent in testdata/tour does between its start and its end.
type trip struct {
	section string // of docs/tour.md, "" for the start and the end alone
	text    string // of the message that is sent
	webhook bool   // whether the message registers a webhook
}

// TestTourListsTheFilesThatAMessageEnters compares the lists of files in docs/tour.md with the coverage of a real
// agent: a trip enters a file if it runs code of the file that no earlier trip has run. -update rewrites the lists.
func TestTourListsTheFilesThatAMessageEnters(t *testing.T) {
	t.Parallel()
	const program = "testdata/tour"
	read(t, program+"/main.go") // a result is not kept if the program has changed
	binary := filepath.Join(t.TempDir(), "tour")
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=set", "-coverpkg="+module+"/...", "-o", binary, "./"+program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	before := make(map[string]bool) // blocks that an earlier trip has run
	for _, trip := range []trip{
		{},
		{section: "message", text: "hello"},
		{section: "event", text: "hello", webhook: true},
		{section: "fact", text: "remember the pump needs no oil"},
		{section: "recall", text: "recall pump"},
	} {
		// Code that depends on time runs in some trips only: such a file may be in the list or not.
		always, ever := covered(t, binary, trip), make(map[string]bool)
		maps.Copy(ever, always)
		for range 2 {
			again := covered(t, binary, trip)
			maps.Copy(ever, again)
			maps.DeleteFunc(always, func(block string, _ bool) bool { return !again[block] })
		}
		if trip.section != "" {
			checkTour(t, trip.section, files(always, before), files(ever, before))
		}
		maps.Copy(before, ever)
	}
}

// files returns the files of the blocks that are not in before.
func files(blocks, before map[string]bool) (names []string) {
	for block := range blocks {
		if name, _, _ := strings.Cut(block, ":"); !before[block] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// checkTour compares a list of docs/tour.md with the files that each trip enters, and with the files that some enter.
func checkTour(t *testing.T, section string, always, ever []string) {
	t.Helper()
	listed := listedFiles(t, section)
	missing := slices.ContainsFunc(always, func(name string) bool { return !slices.Contains(listed, name) })
	wrong := slices.ContainsFunc(listed, func(name string) bool { return !slices.Contains(ever, name) })
	if missing || wrong {
		writeSection(t, tourPage, section, fileTable(always))
	}
}

const tourPage = "docs/tour.md"

// fileTable returns a table of files by their folders.
func fileTable(names []string) string {
	folders := make(map[string][]string)
	for _, name := range names {
		folders[path.Dir(name)] = append(folders[path.Dir(name)], "`"+path.Base(name)+"`")
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| Folder | %d files |\n|---|---|\n", len(names))
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		fmt.Fprintf(&table, "| `%s` | %s |\n", folder, strings.Join(folders[folder], ", "))
	}
	return table.String()
}

// listedFiles returns the files of a table that fileTable has made.
func listedFiles(t *testing.T, section string) (names []string) {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, tourPage), "<!-- "+section+" -->\n")
	table, _, _ := strings.Cut(rest, "<!-- end -->")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "`")
		for i := 3; i < len(cells); i += 2 {
			names = append(names, path.Join(cells[1], cells[i]))
		}
	}
	return names
}

// covered returns the blocks of the product that a process of the agent runs during a trip.
func covered(t *testing.T, binary string, trip trip) map[string]bool {
	t.Helper()
	port, err := testport.New()
	if err != nil {
		t.Fatal(err)
	}
	addr, data := fmt.Sprintf("127.0.0.1:%d", port), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	agent := exec.CommandContext(ctx, binary, t.TempDir(), addr)
	agent.Env = append(os.Environ(), "GOCOVERDIR="+data)
	var logs bytes.Buffer
	agent.Stderr = &logs
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	await.Success(t, func() error { return served(addr) })
	if trip.section != "" {
		take(t, addr, trip)
	}
	if err := agent.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Fatalf("the agent ended with %v:\n%s", err, logs.String())
	}
	profile := filepath.Join(data, "profile")
	if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+data, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("covdata: %v\n%s", err, out)
	}
	blocks := make(map[string]bool)
	lines := bufio.NewScanner(strings.NewReader(read(t, profile)))
	for lines.Scan() {
		block, ok := strings.CutPrefix(lines.Text(), module+"/")
		if ok && strings.HasSuffix(block, " 1") && !strings.HasPrefix(block, "testdata/") {
			blocks[strings.Fields(block)[0]] = true
		}
	}
	if len(blocks) < 1000 {
		t.Fatalf("the agent ran %d blocks, want at least 1000", len(blocks))
	}
	return blocks
}

// served returns nil when a server answers at an address. Package net/http answers the request, because it is none.
func served(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("no request\r\n\r\n")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 400")))
	return err
}

// take sends the message of a trip, and waits for the answer and for the last event of the webhook.
func take(t *testing.T, addr string, trip trip) {
	t.Helper()
	configuration := map[string]any{"blocking": true}
	params := map[string]any{"configuration": configuration, "message": map[string]any{
		"messageId": "019ad000-0000-7000-8000-000000000001", "role": "user", "parts": []any{map[string]any{"kind": "text", "text": trip.text}},
	}}
	delivered := make(chan struct{}, 100)
	if trip.webhook {
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"completed"`)) {
				delivered <- struct{}{}
			}
		}))
		defer receiver.Close()
		configuration["pushNotificationConfig"] = map[string]any{"url": receiver.URL}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post("http://"+addr, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Contains(answer, []byte(`"completed"`)) {
		t.Fatalf("the answer is %s, %v, want a completed task", answer, err)
	}
	if trip.webhook {
		<-delivered
	}
}
