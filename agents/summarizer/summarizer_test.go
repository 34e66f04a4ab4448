package summarizer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer"
	"github.com/holdfast-dev/holdfast/agents/summarizer/pdftext"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/internal/await"
)

const article = `Durable agents keep their promises after a crash. A durable agent writes every event to its store before it tells anyone.
The store of a durable agent is a log of events. Readers follow the log from any event they have seen. Bananas are yellow.
When a process dies, another process claims its durable tasks from the store. The claimed task continues where its log of events ended.`

func text(s string) a2a.Part { return a2a.TextPart{Text: s} }

func data(v any) a2a.Part { return a2a.DataPart{Data: v} }

func file(name, mimeType, content string) a2a.Part {
	return a2a.FilePart{File: a2a.FileWithBytes{Name: name, MimeType: mimeType, Bytes: []byte(content)}}
}

// A document is rejected before the agent needs more memory than one principal may use.
func TestDocumentsNeedMemory(t *testing.T) {
	t.Parallel()
	hc := holdfast.Config{Memory: 64 << 20}
	summarizer.Config{}.Describe(&hc)
	r := holdfasttest.New(t, summarizer.New(summarizer.Config{}), hc)
	task := r.SendMessage(holdfasttest.Message(text(document(6000))))
	if want := "text cannot be summarized: "; task.State != a2a.StateRejected || !strings.Contains(task.Message, want) || !strings.Contains(task.Message, "one owner may hold at most") {
		t.Errorf("a document of %d bytes is %s: %s, want rejected: %s", len(document(6000)), task.State, task.Message, want)
	}
	summaryOf(t, r.SendMessage(holdfasttest.Message(text(document(600)))))
}

func newRunner(t *testing.T, cfg ...summarizer.Config) *holdfasttest.Runner {
	t.Helper()
	var c summarizer.Config
	if len(cfg) > 0 {
		c = cfg[0]
	}
	var hc holdfast.Config
	c.Reader.PDF = pdftext.Pages
	c.Describe(&hc)
	return holdfasttest.New(t, summarizer.New(c), hc)
}

// document returns a text with the given number of pages.
func document(pages int) string {
	var b strings.Builder
	for i := range pages {
		if i > 0 {
			b.WriteString("\f")
		}
		fmt.Fprintf(&b, "Page %d speaks of the durable store number %d and of its log. It says that chapter %d of the log follows.\n", i+1, i+1, i+1)
	}
	return b.String()
}

func summaryOf(t *testing.T, task holdfasttest.Task) (lines []string, counts map[string]any) {
	t.Helper()
	if task.State != a2a.StateCompleted || len(task.Artifacts) != 1 {
		t.Fatalf("task = %s (%s) with %d artifacts, want completed with one", task.State, task.Message, len(task.Artifacts))
	}
	a := task.Artifacts[0]
	if a.Name != "summary" || len(a.Parts) != 2 {
		t.Fatalf("artifact = %q with %d parts, want summary with a text and a data part", a.Name, len(a.Parts))
	}
	counts, ok := a.Parts[1].(a2a.DataPart).Data.(map[string]any)
	if !ok {
		t.Fatalf("second part = %+v, want an object", a.Parts[1])
	}
	return strings.Split(strings.TrimSuffix(a.Text(), "\n"), "\n"), counts
}

func statuses(r *holdfasttest.Runner, id string) []string {
	var texts []string
	for _, e := range r.Events(id) {
		if e.Progress && e.Message != nil {
			texts = append(texts, e.Message.Text())
		}
	}
	return texts
}

func number(t *testing.T, v any) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(fmt.Sprint(v), &n); err != nil {
		t.Fatalf("%v is not a number", v)
	}
	return n
}

func TestTextIsSummarized(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(text(article), data(map[string]any{"sentences": 2})))
	lines, counts := summaryOf(t, task)
	if len(lines) != 2 {
		t.Errorf("summary has %d lines, want 2: %q", len(lines), lines)
	}
	for _, line := range lines {
		if !strings.Contains(strings.Join(strings.Fields(article), " "), line) || strings.Contains(line, "Bananas") {
			t.Errorf("line %q: want a main sentence of the article", line)
		}
	}
	if p, s, c := number(t, counts["pages"]), number(t, counts["sentences"]), number(t, counts["chosen"]); p != 1 || s != 7 || c != 2 {
		t.Errorf("counts = %d pages, %d sentences, %d chosen, want 1, 7, 2", p, s, c)
	}
	if task.Message != "Chose 2 sentences of 7 on 1 page." {
		t.Errorf("message = %q", task.Message)
	}
	if got := statuses(r, task.ID); !slices.Equal(got, []string{"reading page 1 of 1"}) {
		t.Errorf("statuses = %q, want page 1 of 1", got)
	}
}

func TestEachSentenceIsAChunk(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(text(article), data(map[string]any{"sentences": 3})))
	var chunks []string
	for _, e := range r.Events(task.ID) {
		if e.Artifact != nil {
			chunks = append(chunks, e.Artifact.Text())
		}
	}
	if len(chunks) != 4 || chunks[0] == "" || !strings.HasPrefix(chunks[1], "\n") || chunks[3] != "" {
		t.Errorf("chunks = %q, want three sentences and the counts", chunks)
	}
}

func TestEveryFormatIsRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, mimeType, content string }{
		{"a.txt", "text/plain", article},
		{"a.md", "text/markdown", "# Title\n\n" + article + "\n\n* one item of a list stands here\n"},
		{"a.html", "text/html", "<html><body><h1>Title</h1><p>" + article + "</p></body></html>"},
		{"a.pdf", "application/pdf", pdf("(" + strings.ReplaceAll(article, "\n", ") Tj T* (") + ") Tj")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := newRunner(t).SendMessage(holdfasttest.Message(file(tt.name, tt.mimeType, tt.content), data(map[string]any{"sentences": 2})))
			lines, _ := summaryOf(t, task)
			if len(lines) != 2 || strings.ContainsAny(lines[0], "<#") {
				t.Errorf("summary = %q, want two sentences", lines)
			}
		})
	}
}

// pdf returns a document of one page with the given content.
func pdf(content string) string {
	content = "BT /F1 10 Tf 14 TL 40 780 Td " + content + " ET"
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 900 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
	}
	var b strings.Builder
	b.WriteString("%PDF-1.7\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, xref)
	return b.String()
}

func TestLengthIsValidated(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for _, tt := range []struct {
		value any
		lines int // 0: rejected
		got   string
	}{
		{value: 5, lines: 5},
		{value: 5.0, lines: 5},
		{value: 1, lines: 1},
		{value: 100, lines: 7},
		{value: nil, lines: 3},
		{value: 0, got: "0"},
		{value: -3, got: "-3"},
		{value: 101, got: "101"},
		{value: 2.5, got: "2.5"},
		{value: "5", got: `"5"`},
		{value: true, got: "true"},
		{value: 1e300, got: "1e+300"},
		{value: []any{5}, got: "[5]"},
		{value: map[string]any{"n": 1}, got: `{"n":1}`},
	} {
		task := r.SendMessage(holdfasttest.Message(text(article), data(map[string]any{"sentences": tt.value})))
		if tt.lines > 0 {
			if lines, _ := summaryOf(t, task); len(lines) != tt.lines {
				t.Errorf("sentences %v: %d lines, want %d", tt.value, len(lines), tt.lines)
			}
			continue
		}
		if want := "sentences must be a whole number from 1 to 100, got " + tt.got; task.State != a2a.StateRejected || task.Message != want {
			t.Errorf("sentences %v = %s %q, want rejected %q", tt.value, task.State, task.Message, want)
		}
	}
}

func TestUnknownOptionsAreReported(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(text(article), data(map[string]any{"sentencez": 2, "style": "formal"})))
	const want = `ignoring unknown options "sentencez", "style": the only option is {"sentences": 1 to 100}`
	if lines, _ := summaryOf(t, task); len(lines) != 3 || !slices.Contains(statuses(r, task.ID), want) {
		t.Errorf("summary has %d lines after %q, want 3 lines and the status %q", len(lines), statuses(r, task.ID), want)
	}
}

func TestOtherDataIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(data([]any{"sentences"}), text(article), data(map[string]any{"sentence": "many"}), data([]any{5.0, nil})))
	if lines, _ := summaryOf(t, task); len(lines) != 3 {
		t.Errorf("summary has %d lines, want the default of 3", len(lines))
	}
}

func TestNothingToSummarizeAsksForInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		parts []a2a.Part
		want  string
	}{
		{"empty text", []a2a.Part{text("")}, "There is nothing to summarize."},
		{"blank text", []a2a.Part{text(" \n\t ")}, "There is nothing to summarize."},
		{"no letters", []a2a.Part{text("... --- ...")}, "There is nothing to summarize."},
		{"only a length", []a2a.Part{data(map[string]any{"sentences": 4})}, "There is nothing to summarize."},
		{"one sentence", []a2a.Part{text("Please summarize my annual report.")}, "A single sentence is its own summary."},
		{"empty file", []a2a.Part{file("empty.txt", "text/plain", "")}, "empty.txt has no text in it"},
		{"empty pdf", []a2a.Part{file("scan.pdf", "application/pdf", pdf(""))}, "scan.pdf has no text in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t)
			task := r.SendMessage(holdfasttest.Message(tt.parts...))
			if task.State != a2a.StateInputRequired || !strings.Contains(task.Message, tt.want) || !strings.Contains(task.Message, "or a file (plain text, Markdown, HTML or PDF)") {
				t.Fatalf("task = %s %q, want input-required with %q", task.State, task.Message, tt.want)
			}
			if lines, _ := summaryOf(t, r.Reply(task.ID, article)); len(lines) < 3 {
				t.Errorf("after the follow-up: %d lines, want a summary", len(lines))
			}
		})
	}
}

func TestFollowUpKeepsTheLength(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(data(map[string]any{"sentences": 4})))
	if lines, _ := summaryOf(t, r.Reply(task.ID, article)); len(lines) != 4 {
		t.Errorf("summary has %d lines, want the 4 that were requested before", len(lines))
	}
}

func TestFilesAreNamedAndInOrder(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(
		text("Please summarize these."), file("one.txt", "text/plain", article), file("two.md", "text/markdown", document(2)),
		file("", "text/plain", ""), data(map[string]any{"sentences": 1})))
	lines, counts := summaryOf(t, task)
	if len(lines) != 8 || lines[0] != "one.txt:" || lines[3] != "two.md:" || lines[6] != "file 1:" || lines[7] != "(nothing to summarize)" {
		t.Errorf("summary = %q, want each name followed by one sentence", lines)
	}
	docs, ok := counts["documents"].([]any)
	if !ok || len(docs) != 3 {
		t.Fatalf("counts = %v, want three documents", counts)
	}
	if two := docs[1].(map[string]any); two["name"] != "two.md" || number(t, two["chosen"]) != 1 || number(t, counts["chosen"]) != 2 {
		t.Errorf("counts = %v, want 1 of two.md and 2 in all", counts)
	}
	if got := statuses(r, task.ID); !slices.Contains(got, "opening two.md") || !slices.Contains(got, "one.txt: reading page 1 of 1") {
		t.Errorf("statuses = %q, want the files named", got)
	}
}

func TestLongTextWithAFileIsADocument(t *testing.T) {
	t.Parallel()
	task := newRunner(t).SendMessage(holdfasttest.Message(text(article), file("two.txt", "text/plain", article), data(map[string]any{"sentences": 1})))
	if lines, _ := summaryOf(t, task); len(lines) != 5 || lines[0] != "text:" || lines[3] != "two.txt:" {
		t.Errorf("summary = %q, want the text and the file", lines)
	}
}

func TestInvalidDocumentsAreRejectedByName(t *testing.T) {
	t.Parallel()
	valid := file("valid.txt", "text/plain", article)
	for _, tt := range []struct {
		part a2a.Part
		want []string
	}{
		{file("picture.png", "", "\x89PNG\r\n\x1a\n"), []string{"picture.png cannot be read", "image/png", "text/markdown"}},
		{file("blob.bin", "", "\x89PNG\r\n\x1a\n\x00\x00"), []string{"blob.bin cannot be read", "image/png"}},
		{file("torn.pdf", "application/pdf", "%PDF-1.7\nand nothing else"), []string{"torn.pdf cannot be read", "malformed"}},
		{file("a\nb\x00"+strings.Repeat("x", 500), "application/pdf", "x"), []string{"a b", "cannot be read"}},
	} {
		task := newRunner(t).SendMessage(holdfasttest.Message(valid, tt.part))
		if task.State != a2a.StateRejected || len(task.Artifacts) > 0 {
			t.Errorf("%+v = %s with %d artifacts, want rejected without", tt.part, task.State, len(task.Artifacts))
		}
		for _, want := range tt.want {
			if !strings.Contains(task.Message, want) || len(task.Message) > 500 {
				t.Errorf("message = %q, want %q in it, and short", task.Message, want)
			}
		}
	}
}

func TestEveryPageIsReported(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(file("long.txt", "text/plain", document(120))))
	got := statuses(r, task.ID)
	for i := range 120 {
		if want := fmt.Sprintf("reading page %d of 120", i+1); !slices.Contains(got, want) {
			t.Errorf("statuses lack %q", want)
		}
	}
}

func TestLongDocumentCausesFewEvents(t *testing.T) {
	t.Parallel()
	const pages = 2000
	r := newRunner(t)
	task := r.SendMessage(holdfasttest.Message(file("book.txt", "text/plain", document(pages))))
	lines, counts := summaryOf(t, task)
	if n := number(t, counts["pages"]); n != pages || len(lines) == 0 {
		t.Errorf("counts = %d pages, %d lines, want %d and some", n, len(lines), pages)
	}
	got := statuses(r, task.ID)
	if len(got) > 300 || got[len(got)-1] != fmt.Sprintf("reading page %d of %d", pages, pages) {
		t.Errorf("%d statuses, the last %q, want at most 300 up to the last page", len(got), got[len(got)-1])
	}
}

// waitFor waits until the task has reported a status.
func waitFor(t *testing.T, r *holdfasttest.Runner, id, status string) {
	t.Helper()
	await.Success(t, func() error {
		if got := statuses(r, id); !slices.Contains(got, status) {
			return fmt.Errorf("statuses = %q, want %q", got, status)
		}
		return nil
	})
}

func TestInterruptedDocumentResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages = 40
		want, _ := summaryOf(t, newRunner(t).SendMessage(holdfasttest.Message(file("long.txt", "text/plain", document(pages)))))
		r := newRunner(t, summarizer.Config{PageDelay: 20 * time.Millisecond})
		task := r.Submit(holdfasttest.Message(file("long.txt", "text/plain", document(pages))))
		for _, page := range []int{7, 19, 33} {
			waitFor(t, r, task.ID, fmt.Sprintf("reading page %d of %d", page, pages))
			r.Restart()
		}
		done := r.Wait(task.ID)
		got, counts := summaryOf(t, done)
		if !slices.Equal(got, want) || number(t, counts["pages"]) != pages {
			t.Errorf("summary after three restarts = %q, want %q", got, want)
		}
		all := statuses(r, task.ID)
		seen := make(map[string]int)
		resumed := 0
		for _, s := range all {
			seen[s]++
			if strings.HasPrefix(s, "resuming at page ") {
				resumed++
			}
		}
		repeated := 0
		for i := range pages {
			n := seen[fmt.Sprintf("reading page %d of %d", i+1, pages)]
			repeated += n - 1
			if n < 1 || n > 2 {
				t.Errorf("page %d was read %d times, want once, or twice if it was interrupted", i+1, n)
			}
		}
		// A restart interrupts at most the page that is being read.
		if resumed > 3 || repeated > 3 {
			t.Errorf("%d pages were read again and %d restarts reported, want at most one for each of the 3 restarts", repeated, resumed)
		}
		if resumed == 0 {
			t.Errorf("statuses = %q, want a report that it resumes", all)
		}
	})
}

func TestCancelStopsTheReading(t *testing.T) {
	t.Parallel()
	r := newRunner(t, summarizer.Config{PageDelay: time.Hour})
	task := r.Submit(holdfasttest.Message(text(article)))
	waitFor(t, r, task.ID, "reading page 1 of 1")
	if got := r.Cancel(task.ID); got.State != a2a.StateCanceled {
		t.Errorf("Cancel() = %s, want canceled", got.State)
	}
}

func TestTheSameMessageGivesTheSameSummary(t *testing.T) {
	t.Parallel()
	first, _ := summaryOf(t, newRunner(t).Send(document(30)))
	for range 3 {
		if again, _ := summaryOf(t, newRunner(t).Send(document(30))); !slices.Equal(again, first) {
			t.Errorf("summary = %q, want %q", again, first)
		}
	}
}
