package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// script is a handler that executes the text of the message: a verb and its arguments. Each
// action appends a line to the file of effects: action, task, turn, attempt, detail, process,
// time in milliseconds. Each line is one write, so that a kill never leaves a part of a line.
type script struct {
	effects   *os.File
	contracts bool // each turn uses all of them first
}

// Handle runs one turn.
func (s *script) Handle(ctx context.Context, t *holdfast.Turn) error {
	a := &act{script: s, t: t, words: strings.Fields(t.Text())}
	a.note("begin", "-")
	verbs := map[string]func(context.Context) error{
		"steps": a.steps, "work": a.work, "until": a.until, "chunks": a.chunks, "panic": a.panic, "block": a.block,
		"deaf": a.deaf, "leak": a.leak, "retry": a.retry, "ask": a.ask, "length": a.length, "kill": a.kill, "draft": a.draft,
		"say": a.say, "keep": a.keep, "learn": a.learn, "files": a.files, "audit": a.audit,
	}
	verb, ok := verbs[a.word(0)]
	if !ok {
		return t.Reject("unknown verb")
	}
	var err error
	if s.contracts && a.word(0) != "audit" {
		err = a.useContracts(ctx)
	}
	if err == nil {
		err = verb(ctx)
	}
	a.note("end", "-")
	if errors.Is(err, holdfast.ErrLeaseLost) || errors.Is(context.Cause(ctx), holdfast.ErrLeaseLost) {
		a.note("lost", "-")
	}
	return err
}

// act is one attempt of a turn.
type act struct {
	*script
	t     *holdfast.Turn
	words []string
}

func (a *act) note(what, detail string) {
	line := fmt.Sprintf("%s %s %d %d %s %d %d\n", what, a.t.TaskID(), a.t.Number(), a.t.Attempt(), detail, os.Getpid(), time.Now().UnixMilli())
	if _, err := a.effects.WriteString(line); err != nil {
		panic(err)
	}
}

func (a *act) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a *act) number(i int) int {
	n, _ := strconv.Atoi(a.word(i))
	return n
}

func (a *act) duration(i int) time.Duration {
	d, _ := time.ParseDuration(a.word(i))
	return d
}

// steps N D [within K | after K | until NAME]: run N durable steps of duration D. The first attempt
// blocks within step K, after its effect and before its record, or after step K.
func (a *act) steps(ctx context.Context) error {
	sum := 0
	for k := range a.number(1) {
		got, err := holdfast.Step(ctx, a.t, "step", func(ctx context.Context) (int, error) {
			a.note("step", strconv.Itoa(k))
			if err := a.stay(ctx, "within", k); err != nil {
				return 0, err
			}
			return k, sleep(ctx, a.duration(2))
		})
		if err != nil {
			return err
		}
		a.note("recorded", strconv.Itoa(k))
		if err := a.stay(ctx, "after", k); err != nil {
			return err
		}
		sum += got
	}
	if err := a.waitIfAsked(ctx); err != nil {
		return err
	}
	return a.t.Reply(fmt.Sprintf("sum %d", sum))
}

func (a *act) stay(ctx context.Context, where string, k int) error {
	if a.t.Attempt() > 1 || a.word(3) != where || a.number(4) != k {
		return nil
	}
	return sleep(ctx, time.Hour)
}

// work D: wait.
func (a *act) work(ctx context.Context) error {
	if err := sleep(ctx, a.duration(1)); err != nil {
		return err
	}
	return a.t.Reply("done")
}

// keep N D: append N messages to the transcript and remember N facts, at intervals of D, and reply
// with their numbers.
func (a *act) keep(ctx context.Context) error {
	namespace := a.t.ContextID()
	for i := range a.number(1) {
		text := fmt.Sprint("number ", i)
		if err := errors.Join(a.t.Transcript().AppendText(ctx, "agent", text), a.t.Remember(ctx, text, facts.RememberParams{Namespace: namespace})); err != nil {
			return err
		}
		a.note("kept", strconv.Itoa(i))
		if err := sleep(ctx, a.duration(2)); err != nil {
			return err
		}
	}
	messages, err := a.t.Transcript().Messages(ctx, 0, 0)
	if err != nil {
		return err
	}
	for i, m := range messages {
		if want := fmt.Sprintf("%q", fmt.Sprint("number ", i)); string(m.Body) != want {
			return fmt.Errorf("message %d is %s", i, m.Body)
		}
	}
	found, err := a.t.Recall(ctx, "", facts.RecallParams{Namespace: namespace, Limit: 1000})
	if err != nil {
		return err
	}
	return a.t.Reply(fmt.Sprintf("%d messages, %d facts", len(messages), len(found)))
}

// learn N D: write N pairs of documents, at intervals of D. Every third pair replaces the pair before it. Reply
// with the numbers of documents that exist, that should exist, and that the index finds.
func (a *act) learn(ctx context.Context) error {
	d := a.t.Documents(a.t.ContextID())
	pair := func(i int) []string { return []string{fmt.Sprint("first ", i), fmt.Sprint("second ", i)} }
	var want []string
	for i := range a.number(1) {
		var p vector.WriteParams
		for _, id := range pair(i) {
			p.Documents = append(p.Documents, vector.Document{ID: id, Text: id, Embedding: []float32{1, float32(i)}})
		}
		if i%3 == 1 {
			p.Remove = pair(i - 1)
			want = want[:len(want)-2]
		}
		want = append(want, pair(i)...)
		if _, err := d.Upsert(ctx, p); err != nil {
			return err
		}
		a.note("kept", strconv.Itoa(i))
		if err := sleep(ctx, a.duration(2)); err != nil {
			return err
		}
	}
	found, err := d.Search(ctx, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 0}}}, Limit: vector.MaxLimit, Exact: true})
	if err != nil {
		return err
	}
	all, err := d.Get(ctx, want...)
	if err != nil {
		return err
	}
	return a.t.Reply(fmt.Sprintf("%d documents of %d, %d in the index", len(all), len(want), len(found[0].Hits)))
}

// files N BYTES D: write N files and N blobs of BYTES bytes, at intervals of D, and read them back.
func (a *act) files(ctx context.Context) error {
	w := a.t.Artifact("files")
	var refs []string
	content := func(i int) []byte {
		return bytes.Repeat([]byte(fmt.Sprintf("%s %6d\n", a.t.TaskID(), i)), a.number(2))[:a.number(2)]
	}
	for i := range a.number(1) {
		if err := w.WriteFile(ctx, fmt.Sprint(i), "text/plain", bytes.NewReader(content(i))); err != nil {
			return err
		}
		info, err := a.t.Blobs().Put(ctx, bytes.NewReader(content(i)), blobs.Params{})
		if err != nil {
			return err
		}
		refs = append(refs, info.Ref)
		a.note("kept", strconv.Itoa(i))
		if err := sleep(ctx, a.duration(3)); err != nil {
			return err
		}
	}
	for i, ref := range refs {
		r, _, err := a.t.Blobs().Open(ctx, ref)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if !bytes.Equal(got, content(i)) {
			return fmt.Errorf("blob %d has %d other bytes", i, len(got))
		}
	}
	return a.t.Reply(fmt.Sprintf("%d files and %d blobs of %d bytes", a.number(1), len(refs), a.number(2)))
}

// until NAME: wait until the file EFFECTS.NAME exists.
func (a *act) until(ctx context.Context) error {
	if err := a.wait(ctx, a.word(1)); err != nil {
		return err
	}
	return a.t.Reply("done")
}

func (a *act) wait(ctx context.Context, name string) error {
	for !a.isReleased(name) {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (a *act) isReleased(name string) bool {
	_, err := os.Stat(a.effects.Name() + "." + name)
	return err == nil
}

// waitIfAsked waits if the arguments after the second one are "until NAME".
func (a *act) waitIfAsked(ctx context.Context) error {
	if a.word(3) != "until" {
		return nil
	}
	return a.wait(ctx, a.word(4))
}

// chunks N D [until NAME]: write an artifact in N chunks at intervals of D, with a status after
// each.
func (a *act) chunks(ctx context.Context) error {
	w := a.t.Artifact("chunks")
	for i := range a.number(1) {
		if err := a.t.Status(fmt.Sprintf("chunk %d", i)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%d ", i); err != nil {
			return err
		}
		if err := sleep(ctx, a.duration(2)); err != nil {
			return err
		}
	}
	if err := a.waitIfAsked(ctx); err != nil {
		return err
	}
	return a.t.Reply("done")
}

// draft N D: run N steps of duration D. Write an artifact with a chunk before each step and one
// within it, and one more artifact per step.
func (a *act) draft(ctx context.Context) error {
	w := a.t.Artifact("draft")
	for i := range a.number(1) {
		if _, err := fmt.Fprintf(w, "out%d ", i); err != nil {
			return err
		}
		if err := sleep(ctx, a.duration(2)); err != nil {
			return err
		}
		_, err := holdfast.Step(ctx, a.t, "write", func(ctx context.Context) (int, error) {
			a.note("step", strconv.Itoa(i))
			if _, err := fmt.Fprintf(w, "in%d ", i); err != nil {
				return 0, err
			}
			if _, err := fmt.Fprintf(a.t.Artifact("part"), "part %d", i); err != nil {
				return 0, err
			}
			return i, sleep(ctx, a.duration(2))
		})
		if err != nil {
			return err
		}
		a.note("recorded", strconv.Itoa(i))
	}
	return a.t.Reply("done")
}

func (a *act) panic(context.Context) error { panic("as the message says") }

// kill kills the process, possibly before the response to the message is sent.
func (a *act) kill(context.Context) error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return err
	}
	select {}
}

// block never returns.
func (a *act) block(context.Context) error { select {} }

// deaf until NAME: ignore the end of the context, and complete the task when the file EFFECTS.NAME exists.
func (a *act) deaf(context.Context) error {
	for ; !a.isReleased(a.word(2)); time.Sleep(time.Millisecond) {
		_ = a.t.Status("still here")
	}
	_, _ = fmt.Fprint(a.t.Artifact("late"), "deaf")
	return a.t.Reply("deaf")
}

// leak returns when its context is done, but starts a goroutine that continues to report
// progress.
func (a *act) leak(ctx context.Context) error {
	w := a.t.Artifact("leak")
	go func() {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, werr := fmt.Fprint(w, "leak ")
			if err := errors.Join(a.t.Status("leak"), werr); errors.Is(err, holdfast.ErrEnded) {
				a.note("refused", "-")
				return
			}
		}
		a.note("accepted", "-")
	}()
	<-ctx.Done()
	return ctx.Err()
}

// retry K: request another attempt until attempt K.
func (a *act) retry(context.Context) error {
	if a.t.Attempt() < a.number(1) {
		return holdfast.Retry(errors.New("not yet"))
	}
	return a.t.Reply("done")
}

// ask requests input, and completes the task at the next message.
func (a *act) ask(context.Context) error { return a.t.RequireInput("what next?") }

// say [killed]: answer with a message alone. The first attempt kills the process instead.
func (a *act) say(ctx context.Context) error {
	if a.word(1) == "killed" && a.t.Attempt() == 1 {
		return a.kill(ctx)
	}
	return a.t.Say("Hello")
}

// length returns the length of the text.
func (a *act) length(context.Context) error {
	return a.t.Reply(fmt.Sprintf("length %d", len(a.t.Text())))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
