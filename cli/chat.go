package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
)

// chatCmd is an interactive conversation with an agent.
type chatCmd struct {
	Text    []string         `arg:"" optional:"" help:"First message. If the first argument is a URL, it is the agent's."`
	Context command.NonEmpty `placeholder:"ID" help:"Continue this context, and its newest task if that waits for input. An unknown id starts a new context."`

	connection
}

// Run reads and handles lines until the input ends or the user leaves.
func (c *chatCmd) Run(ctx context.Context, a *app) error {
	if len(c.Text) > 0 && isURL(c.Text[0]) {
		if err := c.selectAgent(a, c.Text[0]); err != nil {
			return err
		}
		c.Text = c.Text[1:]
	}
	session := &chat{a: a, conn: &c.connection, contextID: string(c.Context), reconnects: make(chan client.Reconnect)}
	var err error
	session.cl, err = c.client(ctx, a, func(r client.Reconnect) {
		select {
		case session.reconnects <- r:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	session.in = newPrompt(a)
	return session.run(ctx, strings.Join(c.Text, " "))
}

// chat is the state of an interactive chat, which is in one context at a time.
type chat struct {
	a    *app
	conn *connection
	cl   *client.Client
	in   *prompt
	// interrupts delivers Ctrl-C; nil if the chat is not interactive.
	interrupts <-chan struct{}
	// reconnects delivers lost connections during a turn.
	reconnects chan client.Reconnect

	contextID string
	// waiting is the paused task that receives the next message; nil if the next message
	// starts a task.
	waiting *viewer
	files   []a2a.Part // attached to the next message
	// last is the result of the last turn.
	last error
}

// errLeave ends the chat without an error.
var errLeave = errors.New("leave")

func (c *chat) run(ctx context.Context, first string) error {
	unfinished, err := c.start(ctx)
	if err != nil {
		return c.conn.explain(ctx, c.a, err)
	}
	if c.in.interactive {
		ch, release := c.a.interrupts.subscribe()
		defer release()
		c.interrupts = ch
	}
	if unfinished != nil {
		c.a.Info("%s", c.a.Err.Dim("the agent is still working on this task:"))
		err = c.recordResult(ctx, c.follow(ctx, unfinished))
	}
	if err == nil && first != "" {
		c.in.echo(first)
		err = c.recordResult(ctx, c.send(ctx, first))
	}
	for err == nil {
		err = c.recordResult(ctx, c.handleLine(ctx))
	}
	if c.contextID != "" {
		c.a.Info("%s", c.a.Err.Dim(fmt.Sprintf("Continue later: %s chat%s --context %s", c.a.name, c.conn.flags(), quoteShell(command.Clean(c.contextID)))))
	}
	if errors.Is(err, errLeave) {
		return c.last
	}
	return err
}

// recordResult records the result of a turn in c.last. It returns an error if the chat ends.
func (c *chat) recordResult(ctx context.Context, err error) error {
	var status exitStatus
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, errLeave):
		return err
	case errors.Is(err, errInterrupted):
		return exitStatus(exitInterrupted)
	case errors.As(err, &status):
		c.last = status // already reported
		return nil
	}
	err = c.conn.explain(ctx, c.a, err)
	if !c.in.interactive {
		return err
	}
	c.a.Report(err)
	c.last = exitStatus(exitOf(err))
	return nil
}

// handleLine reads a line and executes it as a command or sends it as a message.
func (c *chat) handleLine(ctx context.Context) error {
	text, err := c.in.next(ctx, c.interrupts, c.waiting != nil)
	switch {
	case errors.Is(err, io.EOF) && len(c.files) > 0 && !c.in.interactive:
		return c.send(ctx, "") // the attached files
	case errors.Is(err, io.EOF):
		return errLeave
	case err != nil:
		return err
	}
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch {
	case strings.HasPrefix(text, "//"):
		text = text[1:]
	case strings.HasPrefix(name, "/") && strings.Trim(name[1:], "abcdefghijklmnopqrstuvwxyz") == "":
		return c.command(ctx, name, strings.TrimSpace(rest))
	case name == "" && len(c.files) == 0:
		return nil
	}
	return c.send(ctx, strings.TrimSpace(text))
}

// command executes a line that starts with a slash.
func (c *chat) command(ctx context.Context, name, rest string) error {
	switch name {
	case "/help":
		for _, line := range []string{
			"/file PATH   attach a file to the next message; an empty line sends the file alone",
			"/cancel      cancel the task that waits for an answer",
			"/new         start a new context",
			"/context     show the id of the context",
			"/exit        end the chat, as Ctrl-D does",
			`A line that ends with \ continues on the next line. // at the start of a line sends a /.`,
		} {
			c.a.Info("%s", line)
		}
		return nil
	case "/new":
		c.contextID, c.waiting = "", nil
		c.a.Info("%s", c.a.Err.Dim("the next message starts a new context"))
		return nil
	case "/context":
		if c.contextID == "" {
			c.a.Info("%s", c.a.Err.Dim("no context yet: the first message creates one"))
			return nil
		}
		c.a.Info("%s", command.Clean(c.contextID))
		return nil
	case "/file":
		return c.attach(rest)
	case "/cancel":
		return c.cancelWaiting(ctx)
	case "/exit", "/quit":
		return errLeave
	}
	return command.WithHint(command.Usagef("unknown command %s", name), "/help lists the commands; to send it as a message, write /"+name)
}

// attach adds a file to the next message.
func (c *chat) attach(path string) error {
	if path == "" {
		return command.Usagef("/file needs a path")
	}
	part, err := filePart(expandHome(c.a.env, path), &stdinOnce{done: true})
	if err != nil {
		return err
	}
	c.files = append(c.files, part)
	text := "is attached to the next message"
	if c.in.interactive {
		text += "; an empty line sends it now"
	}
	c.a.Info("%s", c.a.Err.Dim(describeName(part.(a2a.FilePart))+" "+text))
	return nil
}

// expandHome expands ~/ in a path, as a shell does.
func expandHome(env environment, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && env.get("HOME") != "" {
		return env.get("HOME") + "/" + rest
	}
	return path
}

// start shows the agent and the newest messages of the context. It returns the newest task if that is
// running.
func (c *chat) start(ctx context.Context) (*a2a.Task, error) {
	if c.in.interactive {
		card, err := c.cl.Card(ctx)
		switch {
		case a2a.CodeOf(err) == a2a.CodeUnavailable || a2a.CodeOf(err) == a2a.CodeUnauthenticated:
			return nil, err
		case err == nil:
			c.a.Err.Line("%s %s", c.a.Err.Bold(command.OneLine(card.Name, 0)), command.OneLine(card.Description, 0))
		}
		c.a.Err.Line("%s", c.a.Err.Dim("Each line is a message. /help lists commands, Ctrl-D ends the chat."))
	}
	if c.contextID == "" {
		return nil, nil
	}
	params := a2a.ContextQueryParams{ContextID: c.contextID, HistoryLength: new(int)}
	_, about, err := call[a2a.Context](ctx, c.a, c.conn, a2a.MethodContextsGet, params)
	switch a2a.CodeOf(err) {
	case a2a.CodeMethodNotFound, a2a.CodeUnsupported:
		return nil, nil // the agent has no contexts
	default:
	}
	if err != nil {
		return nil, err
	}
	const recentEntries = 6
	transcript, newest, err := readTranscript(ctx, c.a, c.conn, c.contextID, recentEntries)
	if err != nil {
		return nil, err
	}
	c.showTranscript(about, transcript)
	switch {
	case newest == nil || newest.Status.State.Terminal():
		return nil, nil
	case newest.Status.State.Paused():
		c.waiting = c.viewerOf(newest)
		return nil, nil
	}
	return newest, nil
}

// showTranscript shows the newest entries of a context on a terminal.
func (c *chat) showTranscript(about *a2a.Context, transcript []transcriptEntry) {
	if !c.in.interactive {
		return
	}
	o := c.a.Err
	if about.Name != "" {
		o.Line("%s", o.Bold(command.OneLine(about.Name, 0)))
	}
	before := ""
	for _, entry := range transcript {
		author := "agent"
		if entry.author == string(a2a.RoleUser) {
			author = "you"
		}
		if author != before {
			o.Line("%s", o.Dim(author))
		}
		before = author
		for _, line := range excerpt(entry.parts, o.Width) {
			o.Line("%s", line)
		}
	}
	if status := statusOf(about); status != a2a.ContextActive {
		o.Line("%s", o.Bold(fmt.Sprintf("This context is %s: it accepts no new tasks.", status)))
	}
}

// excerpt returns the first lines of parts. It cuts lines to two rows of a terminal with the
// given width, and omits data parts unless there are no others.
func excerpt(parts []a2a.Part, width int) []string {
	const maxLines = 8
	isData := func(p a2a.Part) bool { _, ok := p.(a2a.DataPart); return ok }
	if rest := slices.DeleteFunc(slices.Clone(parts), isData); len(rest) > 0 {
		parts = rest
	}
	var text bytes.Buffer
	showParts(&command.Output{W: &command.ErrWriter{W: &text}, Terminal: true}, parts)
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	if len(lines) > maxLines {
		lines = append(slices.Clone(lines[:maxLines-1]), fmt.Sprintf("  … %d more lines", len(lines)-maxLines+1))
	}
	for i, line := range lines {
		if runes := []rune(line); width > 0 && len(runes) > 2*width {
			lines[i] = string(runes[:2*width-1]) + "…"
		}
	}
	return lines
}

// viewerOf returns a viewer of a task that does not print the existing artifacts again.
func (c *chat) viewerOf(t *a2a.Task) *viewer {
	v := c.newViewer()
	v.taskID, v.contextID, v.status = t.ID, t.ContextID, t.Status
	v.art.texts = map[string]*strings.Builder{}
	for _, artifact := range t.Artifacts {
		v.art.texts[artifact.ID] = new(strings.Builder)
	}
	return v
}

func (c *chat) newViewer() *viewer {
	v := newViewer(c.a, c.conn, true)
	v.line.plain = false // print no status lines without a terminal
	return v
}
