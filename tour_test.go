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

	always, ever map[string]bool // the blocks that each round has run, and the blocks that some round has run
}

// TestTourListsTheFilesThatAMessageEnters compares the lists of files in docs/tour.md with the coverage of a real
// agent: a trip enters a file if it runs code of the file that no earlier trip has run. -update rewrites the lists.
//
// Some code runs only if a timer ends in time, so a file may be entered by some rounds only. It may be in a list or not.
// If the lists do not fit after minRounds, further rounds find more of such code.
func TestTourListsTheFilesThatAMessageEnters(t *testing.T) {
	t.Parallel()
	const (
		program   = "testdata/tour"
		minRounds = 3
		maxRounds = 12
	)
	read(t, program+"/main.go") // a result is not kept if the program has changed
	binary := filepath.Join(t.TempDir(), "tour")
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=set", "-coverpkg="+module+"/...", "-o", binary, "./"+program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	trips := []*trip{
		{},
		{section: "message", text: "hello"},
		{section: "event", text: "hello", webhook: true},
		{section: "fact", text: "remember the pump needs no oil"},
		{section: "recall", text: "recall pump"},
	}
	for round := 1; round <= maxRounds; round++ {
		for _, trip := range trips {
			trip.add(covered(t, binary, trip))
		}
		if round >= minRounds && len(unlisted(t, trips)) == 0 {
			return
		}
	}
	for section, want := range unlisted(t, trips) {
		writeSection(t, tourPage, section, fileTable(want))
	}
}

// add adds the blocks of a round.
func (p *trip) add(blocks map[string]bool) {
	if p.ever == nil {
		p.always, p.ever = maps.Clone(blocks), make(map[string]bool)
	}
	maps.Copy(p.ever, blocks)
	maps.DeleteFunc(p.always, func(block string, _ bool) bool { return !blocks[block] })
}

// unlisted returns the files of the sections with a list that lacks a file which every round enters, or that has a
// file which no round enters.
func unlisted(t *testing.T, trips []*trip) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	always, ever := make(map[string]bool), make(map[string]bool) // the blocks of the earlier trips
	for _, trip := range trips {
		if trip.section != "" {
			listed, entered, possible := listedFiles(t, trip.section), files(trip.always, ever), files(trip.ever, always)
			if !contains(listed, entered) || !contains(possible, listed) {
				all[trip.section] = entered
			}
		}
		maps.Copy(always, trip.always)
		maps.Copy(ever, trip.ever)
	}
	return all
}

// contains reports whether all has each of some.
func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
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
func covered(t *testing.T, binary string, trip *trip) map[string]bool {
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
		send(ctx, t, addr, trip)
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

// send sends the message of a trip, and waits for the answer and for the last event of the webhook.
func send(ctx context.Context, t *testing.T, addr string, trip *trip) {
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
	if !trip.webhook {
		return
	}
	select {
	case <-delivered:
	case <-ctx.Done():
		t.Fatal("the webhook got no last event")
	}
}
