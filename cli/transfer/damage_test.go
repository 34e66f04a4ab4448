package transfer_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store"
)

// smallDocument returns the lines of a short document: head, context, a paused task with two
// events and feedback, a task with three events, an unfinished task with steps, end.
func smallDocument(t testing.TB) []string {
	t.Helper()
	s := memory(t)
	create(t, s, "t1", idle(1, 1),
		store.Event{Time: at(1), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m1", text("a"))},
		store.Event{Time: at(2), State: a2a.StateInputRequired},
	)
	if err := s.AddFeedback(t.Context(), store.Feedback{Key: taskKey("t1"), ID: "f1", Rating: 3, CreatedAt: at(3)}); err != nil {
		t.Fatal(err)
	}
	createDone(t, s, "t2", 4)
	createWorking(t, s)
	lines := strings.SplitAfter(export(t, s, conversation), "\n")
	return lines[:len(lines)-1]
}

var sumMember = regexp.MustCompile(`"sha256":"[0-9a-f]+"`)

// fixSum corrects the checksum of a changed document, so that Import finds other errors.
func fixSum(lines []string) string {
	end := len(lines) - 1
	sum := sha256.Sum256([]byte(strings.Join(lines[:end], "")))
	lines[end] = sumMember.ReplaceAllString(lines[end], `"sha256":"`+hex.EncodeToString(sum[:])+`"`)
	return strings.Join(lines, "")
}

func TestDamagedDocumentsAreRejected(t *testing.T) {
	t.Parallel()
	replace := func(line int, from, to string) func([]string) []string {
		return func(lines []string) []string {
			if !strings.Contains(lines[line-1], from) {
				panic(fmt.Sprintf("line %d has no %s: %s", line, from, lines[line-1]))
			}
			lines[line-1] = strings.Replace(lines[line-1], from, to, 1)
			return lines
		}
	}
	swap := func(a, b int) func([]string) []string {
		return func(lines []string) []string {
			lines[a-1], lines[b-1] = lines[b-1], lines[a-1]
			return lines
		}
	}
	drop := func(from, to int) func([]string) []string {
		return func(lines []string) []string { return slices.Delete(lines, from-1, to) }
	}
	insert := func(at int, text string) func([]string) []string {
		return func(lines []string) []string { return slices.Insert(lines, at-1, text+"\n") }
	}
	for name, tt := range map[string]struct {
		damage func([]string) []string
		want   string
	}{
		"another version":               {replace(1, `"version":1`, `"version":2`), "line 1: version is 2, want 1"},
		"no version":                    {replace(1, `,"version":1`, ``), "line 1: version is required"},
		"no head":                       {drop(1, 1), "line 1: type is context, want holdfast-export"},
		"text":                          {insert(1, "hello"), "line 1: not JSON"},
		"another object":                {insert(1, `{"kind":"task"}`), "line 1: type is required"},
		"an unknown type":               {insert(4, `{"type":"webhook"}`), `line 4: type "webhook" is unknown, want step or event`},
		"an empty line":                 {insert(4, ""), "line 4: not JSON"},
		"no context":                    {drop(2, 2), "line 2: type is task, want context"},
		"two contexts":                  {func(l []string) []string { return slices.Insert(l, 2, l[1]) }, "line 3: type is context, want task or end"},
		"no owner":                      {replace(2, `"owner":"alice"`, `"owner":""`), "line 2: owner must not be empty"},
		"a context without role":        {replace(2, `"role":"assistant"`, `"role":""`), "line 2: change of context c1 has no status or no role"},
		"tags out of order":             {replace(2, `"role"`, `"tags":["b","a"],"role"`), "line 2: change of context c1 has unsorted or duplicate tags"},
		"a parent with a NUL":           {replace(2, `"role"`, `"parentContextId":"a\u0000","role"`), "line 2: context.parentContextId must not be empty or contain a NUL"},
		"a reference with a NUL":        {replace(2, `"role"`, `"referenceContextIds":["c2","a\u0000"],"role"`), "line 2: context.referenceContextIds[1] must not be empty or contain a NUL"},
		"another status":                {replace(2, `"status":"active"`, `"status":"sleeping"`), `line 2: context.status is "sleeping", want one of active`},
		"another context":               {replace(3, `"contextId":"c1"`, `"contextId":"c2"`), "line 3: task.contextId must be the context of the document"},
		"a task without id":             {replace(3, `"id":"t1"`, `"id":""`), "line 3: task.id must not be empty"},
		"a task without events":         {replace(3, `"events":2`, `"events":0`), "line 3: events must be 1 or more"},
		"messages after the last event": {replace(3, `"seenSeq":1`, `"seenSeq":3`), "line 3: run must have"},
		"a turn that never started":     {replace(3, `"seenSeq":1`, `"seenSeq":1,"startSeq":3`), "line 3: run must have"},
		"a missing last event":          {drop(5, 5), "line 5: type is feedback, want event"},
		"a missing first event":         {drop(4, 4), `line 4: event 2 of task "t1", want event 1`},
		"events swapped":                {swap(4, 5), `line 4: event 2 of task "t1", want event 1`},
		"an event with unknown state":   {replace(5, `"state":"input-required"`, `"state":"later"`), `line 5: event.state is "later", want one of submitted`},
		"an event without time":         {replace(4, `"time":"`+at(1).Format(time.RFC3339Nano)+`",`, ``), "line 4: event.time is required"},
		"an event without state":        {replace(5, `,"state":"input-required"`, ``), "line 5: event.state is required"},
		"an event with another text":    {replace(4, `"text":"a"`, `"text":"b"`), `line 5: the events of task "t1" do not match its line`},
		"a task with another text":      {replace(3, `"text":"a"`, `"text":"b"`), `line 5: the events of task "t1" do not match its line`},
		"another time":                  {replace(5, `02Z"`, `03Z"`), `line 5: the events of task "t1" do not match its line`},
		"a message without parts":       {replace(4, `"parts":[{"kind":"text","text":"a"}]`, `"x":1`), "line 4: event.received.parts is required"},
		"feedback on another task":      {replace(6, `"taskId":"t1"`, `"taskId":"t2"`), "line 6: feedback.taskId must be the previous task"},
		"a rating of 6":                 {replace(6, `"rating":3`, `"rating":6`), "line 6: feedback.rating must be 1 to 5"},
		"feedback without id":           {replace(6, `"feedbackId":"f1"`, `"feedbackId":""`), "line 6: feedback.feedbackId must not be empty"},
		"feedback before its task":      {swap(3, 6), "line 3: type is feedback, want task or end"},
		"a task twice":                  {func(l []string) []string { return slices.Insert(l, 6, l[2:6]...) }, `line 8: task "t1" was created before the previous task`},
		"tasks swapped": {func(l []string) []string {
			return slices.Concat(l[:2], l[6:10], l[2:6], l[10:])
		}, `line 8: task "t1" was created before the previous task`},
		"a missing task":      {drop(7, 10), "line 14: lines.event is 9, but the document has 6 such lines"},
		"a step without name": {replace(12, `"name":"second"`, `"name":""`), "line 12: name must not be empty"},
		"an invalid step":     {replace(12, `"result":"AAE="`, `"result":"?"`), "line 12: result must be base64"},
		"no damage":           {func(l []string) []string { return l }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := memory(t)
			document := fixSum(tt.damage(smallDocument(t)))
			_, err := transfer.Import(t.Context(), strings.NewReader(document), target, queueUnfinished)
			if tt.want == "" {
				if err != nil {
					t.Errorf("Import() of an undamaged document = %v", err)
				}
				return
			}
			if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Import() = %v, want invalid_params and %q", err, tt.want)
			}
			checkEmpty(t, target)
		})
	}
}

// Import rejects a document that is truncated at any byte before its last line break.
func TestTruncatedDocumentsAreRejected(t *testing.T) {
	t.Parallel()
	document := strings.Join(smallDocument(t), "")
	target := memory(t)
	for n := 0; n < len(document)-1; n += 3 {
		if _, err := transfer.Import(t.Context(), strings.NewReader(document[:n]), target, queueUnfinished); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Fatalf("Import() of %d of %d bytes = %v, want invalid_params", n, len(document), err)
		}
	}
	two := document + document[:len(document)/2]
	if _, err := transfer.Import(t.Context(), strings.NewReader(two), target, queueUnfinished); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("Import() of a truncated second document = %v, want an error with \"truncated\"", err)
	}
	checkEmpty(t, target)
	importDocument(t, target, document[:len(document)-1], queueUnfinished)
}

func TestChangedBytesAreDetected(t *testing.T) {
	t.Parallel()
	document := strings.Join(smallDocument(t), "")
	target := memory(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(document); i += 3 {
		b := []byte(document)
		b[i] ^= 1 << random.IntN(8)
		_, err := transfer.Import(t.Context(), strings.NewReader(string(b)), target, queueUnfinished)
		if err == nil {
			t.Fatalf("Import() with byte %d changed from %q to %q = nil, want an error", i, document[i], b[i])
		}
	}
	checkEmpty(t, target)
}

func TestImportStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := transfer.Import(ctx, strings.NewReader(strings.Join(smallDocument(t), "")), memory(t), queueUnfinished); !errors.Is(err, context.Canceled) {
		t.Errorf("Import() = %v, want %v", err, context.Canceled)
	}
}

// A conflict between two documents of a file is found before the first one is written.
func TestConflictingDocumentsAreRejected(t *testing.T) {
	t.Parallel()
	document := strings.Join(smallDocument(t), "")
	other := memory(t)
	createDone(t, other, "t9", 4)
	opts := transfer.ImportOptions{Owner: "carol", Unfinished: transfer.UnfinishedQueue}
	target := memory(t)
	_, err := transfer.Import(t.Context(), strings.NewReader(document+export(t, other, conversation)), target, opts)
	if a2a.CodeOf(err) != a2a.CodeConflict || !strings.Contains(err.Error(), `the input has different documents of context "c1" of owner "carol"`) {
		t.Errorf("Import() of two documents of one context = %v, want conflict and which context", err)
	}
	if _, err := target.Context(t.Context(), "carol", conversation.ID, 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Context() = %v, want nothing written", err)
	}
	importDocument(t, target, document+document, opts)
}
