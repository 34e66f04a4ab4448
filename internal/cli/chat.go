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
	"github.com/holdfast-dev/holdfast/client"
)

// chatCmd talks with an agent.
type chatCmd struct {
	Text    []string `arg:"" optional:"" help:"What to say first."`
	Context given    `placeholder:"ID" help:"Continue a conversation: with its newest task, if that waits for input. An id that is not in use starts a new conversation."`

	connection
}

// Help has examples.
func (chatCmd) Help() string {
	return `Each line is a message. A line that ends in \ goes on in the next one, and what is pasted stays together. When the agent asks something the next line answers it. A line such as /help is for the chat itself: /new, /context, /file PATH, /cancel, /exit. One that begins with // is said with one of the two.

Ctrl-C cancels what the agent works on, and a second one leaves. Ctrl-D or /exit leaves and shows how to go on later.

Without a terminal every line of stdin is a turn of its own: answers go to stdout, the rest to stderr, what is not an answer (no server, a file that cannot be read) ends the chat, and so does Ctrl-C, which then leaves the task alone. The exit code tells how the last turn ended (holdfast help exit-codes).

Examples:

    holdfast chat
    holdfast chat --context 01980a2e-...
    printf 'first line\nsecond line\n' | holdfast chat`
}

// Run talks until there is nothing more to say.
func (c *chatCmd) Run(ctx context.Context, a *app) error {
	talk := &chat{a: a, conn: &c.connection, contextID: string(c.Context), reconnects: make(chan client.Reconnect)}
	var err error
	talk.cl, err = c.client(func(r client.Reconnect) {
		select {
		case talk.reconnects <- r:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	talk.in = newPrompt(a)
	return talk.run(ctx, strings.Join(c.Text, " "))
}

// chat is one conversation, turn by turn.
type chat struct {
	a    *app
	conn *connection
	cl   *client.Client
	in   *prompt
	// interrupts come while a person is there; reconnects while a turn goes on.
	interrupts <-chan struct{}
	reconnects chan client.Reconnect

	contextID string
	// waiting is the task that the next message goes to; nil when that begins one.
	waiting *viewer
	files   []a2a.Part // to go with the next message
	// last is how the last turn ended.
	last error
}

// errLeave ends the chat in good order.
var errLeave = errors.New("leave")

func (c *chat) run(ctx context.Context, first string) error {
	unfinished, err := c.begin(ctx)
	if err != nil {
		return c.conn.explain(ctx, c.a, err)
	}
	if c.in.person {
		come, release := c.a.interrupts.take()
		defer release()
		c.interrupts = come
	}
	if unfinished != nil {
		c.a.say("%s", c.a.err.dim("the agent still works on this:"))
		err = c.settle(ctx, c.follow(ctx, unfinished))
	}
	if err == nil && first != "" {
		c.in.echo(first)
		err = c.settle(ctx, c.say(ctx, first))
	}
	for err == nil {
		err = c.settle(ctx, c.next(ctx))
	}
	if c.contextID != "" {
		c.a.say("%s", c.a.err.dim(fmt.Sprintf("Continue later: %s chat%s --context %s", c.a.name, c.conn.flags(), quoteShell(clean(c.contextID)))))
	}
	if errors.Is(err, errLeave) {
		return c.last
	}
	return err
}

// settle keeps how a turn ended and returns what ends the chat.
func (c *chat) settle(ctx context.Context, err error) error {
	var status exitStatus
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, errLeave):
		return err
	case errors.Is(err, errInterrupted):
		return exitStatus(exitInterrupted)
	case errors.As(err, &status):
		c.last = status // it has been told
		return nil
	}
	err = c.conn.explain(ctx, c.a, err)
	if !c.in.person {
		return err
	}
	c.a.report(err)
	c.last = exitStatus(exitOf(err))
	return nil
}

// next takes a line and does what it asks for.
func (c *chat) next(ctx context.Context) error {
	text, err := c.in.next(ctx, c.interrupts, c.waiting != nil)
	switch {
	case errors.Is(err, io.EOF) && len(c.files) > 0 && !c.in.person:
		return c.say(ctx, "") // files that nothing is said about
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
	return c.say(ctx, strings.TrimSpace(text))
}

// command does what a line says that is for the chat.
func (c *chat) command(ctx context.Context, name, rest string) error {
	switch name {
	case "/help":
		for _, line := range []string{
			"/file PATH   send a file along with the next message; Enter alone sends it without one",
			"/cancel      cancel the task that waits for an answer",
			"/new         begin a new conversation",
			"/context     show the conversation's id",
			"/exit        leave, as Ctrl-D does",
			`A line that ends in \ goes on in the next one. // at its begin stands for a /.`,
		} {
			c.a.say("%s", line)
		}
		return nil
	case "/new":
		c.contextID, c.waiting = "", nil
		c.a.say("%s", c.a.err.dim("a new conversation begins with the next message"))
		return nil
	case "/context":
		if c.contextID == "" {
			c.a.say("%s", c.a.err.dim("there is none yet: it begins with the first message"))
			return nil
		}
		c.a.say("%s", clean(c.contextID))
		return nil
	case "/file":
		return c.attach(rest)
	case "/cancel":
		return c.drop(ctx)
	case "/exit", "/quit":
		return errLeave
	}
	return &hinted{usagef("there is no %s", name), "/help lists what there is; to say it to the agent write /" + name}
}

// attach adds a file to the next message.
func (c *chat) attach(path string) error {
	if path == "" {
		return usagef("/file needs the path of a file")
	}
	part, err := filePart(expandHome(c.a.env, path), &stdinOnce{done: true})
	if err != nil {
		return err
	}
	c.files = append(c.files, part)
	text := "goes along with the next message"
	if c.in.person {
		text += "; Enter alone sends it now"
	}
	c.a.say("%s", c.a.err.dim(describeName(part.(a2a.FilePart))+" "+text))
	return nil
}

// expandHome makes a path of ~/..., which no shell has seen here.
func expandHome(env environment, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && env.get("HOME") != "" {
		return env.get("HOME") + "/" + rest
	}
	return path
}

// begin shows who is there and what was said before. It returns the newest task
// if that is not over and waits for nothing.
func (c *chat) begin(ctx context.Context) (*a2a.Task, error) {
	if c.in.person {
		card, err := c.cl.Card(ctx)
		switch {
		case a2a.CodeOf(err) == a2a.CodeUnavailable || a2a.CodeOf(err) == a2a.CodeUnauthenticated:
			return nil, err
		case err == nil:
			c.a.err.line("%s %s", c.a.err.bold(oneLine(card.Name, 0)), oneLine(card.Description, 0))
		}
		c.a.err.line("%s", c.a.err.dim("Each line is a message. /help shows what else there is, Ctrl-D leaves."))
	}
	if c.contextID == "" {
		return nil, nil
	}
	params := a2a.ContextQueryParams{ContextID: c.contextID, HistoryLength: new(int)}
	_, about, err := ask[a2a.Context](ctx, c.cl, a2a.MethodContextsGet, params)
	switch a2a.CodeOf(err) {
	case a2a.CodeMethodNotFound, a2a.CodeUnsupported:
		return nil, nil // an agent that keeps no contexts
	default:
	}
	if err != nil {
		return nil, err
	}
	const few = 6
	talk, newest, err := readConversation(ctx, c.cl, c.contextID, few)
	if err != nil {
		return nil, err
	}
	c.recall(about, talk)
	switch {
	case newest == nil || newest.Status.State.Terminal():
		return nil, nil
	case newest.Status.State.Paused():
		c.waiting = c.viewerOf(newest)
		return nil, nil
	}
	return newest, nil
}

// recall shows a person what was said last.
func (c *chat) recall(about *a2a.Context, talk []utterance) {
	if !c.in.person {
		return
	}
	o := c.a.err
	if about.Name != "" {
		o.line("%s", o.bold(oneLine(about.Name, 0)))
	}
	before := ""
	for _, said := range talk {
		who := "agent"
		if said.who == string(a2a.RoleUser) {
			who = "you"
		}
		if who != before {
			o.line("%s", o.dim(who))
		}
		before = who
		for _, line := range excerpt(said.parts, o.width) {
			o.line("%s", line)
		}
	}
	if status := statusOf(about); status != a2a.ContextActive {
		o.line("%s", o.bold(fmt.Sprintf("This conversation is %s: it takes no new tasks.", status)))
	}
}

// excerpt is the begin of what parts show. Lines are cut to two rows of a terminal
// of that width; data is left out where there is anything else.
func excerpt(parts []a2a.Part, width int) []string {
	const most = 8
	isData := func(p a2a.Part) bool { _, ok := p.(a2a.DataPart); return ok }
	if rest := slices.DeleteFunc(slices.Clone(parts), isData); len(rest) > 0 {
		parts = rest
	}
	var text bytes.Buffer
	showParts(&output{w: &keeper{w: &text}, terminal: true}, parts)
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	if len(lines) > most {
		lines = append(slices.Clone(lines[:most-1]), fmt.Sprintf("  … %d more lines", len(lines)-most+1))
	}
	for i, line := range lines {
		if runes := []rune(line); width > 0 && len(runes) > 2*width {
			lines[i] = string(runes[:2*width-1]) + "…"
		}
	}
	return lines
}

// viewerOf returns a viewer of a task whose results have been seen.
func (c *chat) viewerOf(t *a2a.Task) *viewer {
	v := c.newViewer()
	v.taskID, v.contextID, v.status = t.ID, t.ContextID, t.Status
	v.art.known = map[string]bool{}
	for _, artifact := range t.Artifacts {
		v.art.known[artifact.ID] = true
	}
	return v
}

func (c *chat) newViewer() *viewer {
	v := newViewer(c.a, c.conn, true)
	v.line.plain = false // without a terminal only what is said counts
	return v
}
