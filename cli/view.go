package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// viewer shows the updates of a task: results on stdout, status on stderr.
type viewer struct {
	a    *app
	conn *connection
	line statusLine
	// live viewers print artifacts as they arrive.
	live bool
	art  artifactPrinter

	taskID    string
	contextID string
	status    a2a.TaskStatus
}

func newViewer(a *app, conn *connection, live bool) *viewer {
	v := &viewer{a: a, conn: conn, live: live}
	v.line = statusLine{o: a.Err, off: a.JSON, plain: live}
	v.art = artifactPrinter{a: a, line: &v.line}
	return v
}

// reconnecting shows that the client lost the connection and retries.
func (v *viewer) reconnecting(r client.Reconnect) {
	text := fmt.Sprintf("connection lost, retrying in %s (%s)", r.Delay.Round(100*time.Millisecond), command.OneLine(r.Err.Error(), 80))
	if v.a.Err.Terminal {
		v.art.breakLine()
		v.line.show(text)
	} else if r.Attempt == 1 {
		v.a.Info("%s", text)
	}
}

// detach prints how to follow the task if the command ends before it.
func (v *viewer) detach(ctx context.Context, err error) error {
	v.line.clear()
	var status exitStatus
	if err == nil || errors.As(err, &status) || v.taskID == "" || v.status.State.Final() {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	v.a.Info("The task continues. Follow it: %s tasks follow%s %s", v.a.name, v.conn.flags(), v.taskID)
	return err
}

// stream shows the updates of a stream and the outcome.
func (v *viewer) stream(updates iter.Seq2[client.Update, error]) error {
	for u, err := range updates {
		if err != nil {
			return err
		}
		if v.a.JSON {
			v.a.Out.JSON(inV03(v.conn.cl, u.Raw, u.Event))
		}
		if m, ok := u.Event.(*a2a.Message); ok {
			if v.a.JSON {
				return nil
			}
			return v.message(m)
		}
		v.showEvent(u.Event)
	}
	return v.finish()
}

// showEvent shows an update.
func (v *viewer) showEvent(event a2a.Event) {
	switch e := event.(type) {
	case *a2a.Task:
		v.taskID, v.contextID, v.status = e.ID, e.ContextID, e.Status
		if v.live && !v.a.JSON {
			for _, artifact := range e.Artifacts {
				v.art.printComplete(artifact)
			}
		}
	case *a2a.TaskStatusUpdateEvent:
		v.taskID, v.contextID, v.status = e.TaskID, e.ContextID, e.Status
	case *a2a.TaskArtifactUpdateEvent:
		if v.live && !v.a.JSON {
			v.art.printChunk(e)
		}
		return
	}
	if !v.status.State.Final() && !v.art.onScreen() {
		v.line.show(v.progress())
	}
}

func (v *viewer) progress() string {
	text := string(v.status.State)
	if m := v.status.Message; m != nil && m.Text() != "" {
		text += ": " + m.Text()
	}
	return text
}

// wait waits until a task is final and shows it.
func (v *viewer) wait(ctx context.Context, cl *client.Client, task *a2a.Task) error {
	v.showEvent(task)
	if !task.Status.State.Final() {
		err := v.follow(ctx, cl)
		switch a2a.CodeOf(err) {
		case a2a.CodeUnsupported, a2a.CodeMethodNotFound, a2a.CodeInvalidAgentResponse:
			err = v.poll(ctx, cl)
		default: // the agent streams
		}
		if err != nil {
			return err
		}
	}
	return v.show(ctx)
}

func (v *viewer) follow(ctx context.Context, cl *client.Client) error {
	for u, err := range cl.Resubscribe(ctx, v.taskID, "") {
		if err != nil {
			return err
		}
		v.showEvent(u.Event)
	}
	return nil
}

// poll waits for a task of an agent that does not support streaming.
func (v *viewer) poll(ctx context.Context, cl *client.Client) error {
	for delay := 100 * time.Millisecond; ; delay = min(delay*3/2, 5*time.Second) {
		task, err := cl.Task(ctx, a2a.TaskQueryParams{ID: v.taskID})
		if err != nil {
			return err
		}
		if v.showEvent(task); task.Status.State.Final() {
			return nil
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// show reads the final task and shows it completely.
func (v *viewer) show(ctx context.Context) error {
	raw, task, err := call[a2a.Task](ctx, v.a, v.conn, a2a.MethodGet, a2a.TaskQueryParams{ID: v.taskID})
	if err != nil {
		return err
	}
	v.line.clear()
	if v.a.JSON {
		v.a.Out.JSON(raw)
	}
	v.status, v.contextID = task.Status, task.ContextID
	if !v.a.JSON {
		for _, artifact := range task.Artifacts {
			v.art.printComplete(artifact)
		}
	}
	return v.finish()
}

// finish shows the outcome of the task and returns its exit code.
func (v *viewer) finish() error {
	v.line.clear()
	state := v.status.State
	if !v.a.JSON {
		v.art.end()
		v.outcome(state)
	}
	if code := exitOfState(state); code != exitOK {
		return exitStatus(code)
	}
	return nil
}

func (v *viewer) outcome(state a2a.TaskState) {
	text := ""
	if v.status.Message != nil {
		text = strings.TrimRight(v.status.Message.Text(), "\n")
	}
	o := v.a.Err
	about := o.Dim(fmt.Sprintf("task %s, context %s", v.taskID, v.contextID))
	switch {
	case state.Paused():
		o.Line("%s %s", o.Bold(string(state)+":"), command.Clean(text))
		o.Line("Answer: %s send%s --task %s 'your answer'", v.a.name, v.conn.flags(), v.taskID)
		o.Line("%s", about)
	case state == a2a.StateCompleted:
		if text != "" && !v.art.printed {
			v.a.Out.Text(text + "\n")
		} else if text != "" && !v.art.said(text) {
			o.Line("%s", command.Clean(text))
		}
		o.Line("%s %s", o.Bold("completed:"), about)
	case text == "":
		o.Line("%s %s", o.Red(string(state)+":"), about)
	default:
		o.Line("%s %s", o.Red(string(state)+":"), command.Clean(text))
		o.Line("%s", about)
	}
}

// accepted shows a task that the command does not wait for.
func (v *viewer) accepted(task *a2a.Task) error {
	if v.a.JSON {
		raw, err := wire.Marshal(task)
		if err != nil {
			return err
		}
		v.a.Out.JSON(raw)
		return nil
	}
	v.a.Out.Line("%s", command.Clean(task.ID))
	v.a.Info("%s. Follow it: %s tasks follow%s %s", task.Status.State, v.a.name, v.conn.flags(), command.Clean(task.ID))
	return nil
}

// message shows an answer that is a message instead of a task.
func (v *viewer) message(m *a2a.Message) error {
	if v.a.JSON {
		raw, err := wire.Marshal(m)
		if err != nil {
			return err
		}
		v.a.Out.JSON(raw)
		return nil
	}
	v.art.printComplete(a2a.Artifact{Parts: m.Parts})
	v.art.end()
	return nil
}

// artifactPrinter prints artifacts to stdout.
type artifactPrinter struct {
	a    *app
	line *statusLine
	// printed reports whether anything was printed, open whether the last line has no line break.
	printed, open bool
	id            string                      // of the last artifact
	texts         map[string]*strings.Builder // what was printed of each artifact
	ids           []string                    // the artifacts that were printed in this turn
}

// nextTurn starts the turn of another message.
func (p *artifactPrinter) nextTurn() { p.printed, p.ids = false, nil }

// said reports whether a text is the text of an artifact that was printed in this turn: agents return their answer as both.
func (p *artifactPrinter) said(text string) bool {
	return slices.ContainsFunc(p.ids, func(id string) bool {
		return strings.TrimSpace(p.texts[id].String()) == strings.TrimSpace(text)
	})
}

// printComplete prints a complete artifact, unless a part of it was printed.
func (p *artifactPrinter) printComplete(a a2a.Artifact) {
	if p.texts[a.ID] == nil {
		p.print(a, false)
	}
}

func (p *artifactPrinter) printChunk(e *a2a.TaskArtifactUpdateEvent) { p.print(e.Artifact, e.Append) }

func (p *artifactPrinter) print(a a2a.Artifact, more bool) {
	if p.texts == nil {
		p.texts = map[string]*strings.Builder{}
	}
	if p.id != a.ID || p.texts[a.ID] == nil {
		p.end()
		p.id = a.ID
	}
	if p.texts[a.ID] == nil || !more {
		p.texts[a.ID] = new(strings.Builder)
	}
	p.texts[a.ID].WriteString(a.Text())
	if !slices.Contains(p.ids, a.ID) {
		p.ids = append(p.ids, a.ID)
	}
	for _, part := range a.Parts {
		p.part(part)
	}
}

func (p *artifactPrinter) part(part a2a.Part) {
	p.line.clear()
	switch part := part.(type) {
	case a2a.TextPart:
		if part.Text != "" {
			p.a.Out.Text(part.Text)
			p.printed, p.open = true, !strings.HasSuffix(part.Text, "\n")
		}
	case a2a.DataPart:
		raw, err := json.Marshal(part.Data)
		if err != nil {
			return
		}
		p.end()
		if p.printed {
			p.a.Err.Line("%s", p.a.Err.Dim(fmt.Sprintf("data: %d bytes of JSON; --json shows them", len(raw))))
			return
		}
		p.a.Out.Text(string(raw) + "\n")
	case a2a.FilePart:
		p.end()
		p.a.Err.Line("%s", p.a.Err.Dim("file: "+command.Clean(describeFile(part))))
	}
}

// onScreen reports whether the terminal's last line is an unfinished line of an artifact, which a
// status line would overwrite.
func (p *artifactPrinter) onScreen() bool { return p.open && p.a.Out.Terminal }

// breakLine ends an unfinished line on a terminal.
func (p *artifactPrinter) breakLine() {
	if p.onScreen() {
		p.a.Out.Text("\n")
		p.open = false
	}
}

// end ends an unfinished line.
func (p *artifactPrinter) end() {
	if p.open {
		p.line.clear()
		p.a.Out.Text("\n")
		p.open = false
	}
}

func describeFile(part a2a.FilePart) string {
	name, kind := part.File.Info()
	if name == "" {
		name = "unnamed"
	}
	if kind != "" {
		name += " (" + kind + ")"
	}
	switch f := part.File.(type) {
	case a2a.FileWithBytes:
		return fmt.Sprintf("%s, %d bytes; --json shows them", name, len(f.Bytes))
	case a2a.FileWithURI:
		return name + " at " + f.URI
	}
	return name
}

// statusLine is a line that is updated in place on a terminal. Without a terminal each change is
// printed as a line if plain is set, else not at all.
type statusLine struct {
	o     *command.Output
	off   bool
	plain bool
	last  string
	shown bool
}

func (s *statusLine) show(text string) {
	switch {
	case s.off || text == s.last:
	case s.o.Terminal:
		s.clear()
		s.last, s.shown = text, true
		_, _ = fmt.Fprint(s.o.W, s.o.Dim(command.OneLine(text, s.o.Width-1)))
	case s.plain:
		s.last = text
		s.o.Line("%s", command.OneLine(text, 0))
	}
}

func (s *statusLine) clear() {
	if s.shown {
		_, _ = fmt.Fprint(s.o.W, "\r\x1b[K")
		s.shown = false
		s.last = ""
	}
}
