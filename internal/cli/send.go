package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// sendCmd sends a message.
type sendCmd struct {
	Text    []string `arg:"" optional:"" help:"What to say; - reads it from stdin, as does a command without text, files and data."`
	File    []string `short:"f" sep:"none" placeholder:"FILE" group:"Message:" help:"Send a file along; again for more; - is stdin. It travels inside the message. A URL is sent as it is, for the agent to fetch."`
	Data    []string `sep:"none" placeholder:"JSON" group:"Message:" help:"Send structured data along, such as '{\"sentences\": 5}'."`
	Task    given    `placeholder:"ID" group:"Message:" help:"Go on with a task: answer its question, or add to what it does."`
	Context given    `placeholder:"ID" group:"Message:" help:"Add the task to this conversation. An id that is not in use starts a new conversation."`
	Key     given    `name:"idempotency-key" placeholder:"KEY" group:"Message:" help:"The agent takes the message once, however often it is sent with this key. Lost connections are then tried again."`

	Wait   bool `negatable:"" default:"true" group:"Answer:" help:"Wait until the task is over or asks for input, and show the result. On by default; --no-wait shows the task's id and ends."`
	Stream bool `group:"Answer:" help:"Show progress and results as they come."`

	inline

	connection
}

// given is what must not be empty where it is said at all: a script whose variable
// is not set would begin another task instead of going on with one, or send again
// what was to be sent once.
type given string

// UnmarshalText reads it.
func (g *given) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("must not be empty")
	}
	*g = given(text)
	return nil
}

// Help has examples.
func (sendCmd) Help() string {
	return `The result goes to stdout, what is said about it to stderr; the exit code tells how the task ended (holdfast help exit-codes). The task does not depend on this command: it goes on when you interrupt it or lose the connection.

Examples:

    holdfast send "Some long text to summarize ..."
    holdfast send -f report.pdf --data '{"sentences": 3}'
    holdfast send --stream -f book.txt
    pdftotext paper.pdf - | holdfast send
    holdfast send --task 01980a2e-... "the second chapter"
    holdfast send --no-wait --webhook https://example.com/tasks --webhook-token "$SECRET" -f book.pdf
    id=$(holdfast send --no-wait --json -f book.txt | jq -r .id)`
}

// Run sends the message and shows the answer.
func (c *sendCmd) Run(ctx context.Context, a *app) error {
	message, err := c.message(a)
	if err != nil {
		return err
	}
	v := newViewer(a, &c.connection, c.Stream)
	cl, err := c.client(v.reconnecting)
	if err != nil {
		return err
	}
	params := client.SendParams{Message: message, IdempotencyKey: string(c.Key)}
	if params.Configuration, err = c.configuration(); err != nil {
		return err
	}
	switch {
	case c.Stream:
		err = v.stream(cl.Stream(ctx, params))
	default:
		err = c.send(ctx, v, cl, params)
	}
	return c.explain(ctx, a, explainURL(a, v.leave(ctx, err), c.Webhook))
}

// send sends the message without waiting, so that the task's id is known at
// once, and then follows the task if it is to wait: that survives whatever
// happens to the connection or the server.
func (c *sendCmd) send(ctx context.Context, v *viewer, cl *client.Client, params client.SendParams) error {
	answer, err := cl.Send(ctx, params)
	if err != nil {
		return err
	}
	task, ok := answer.(*a2a.Task)
	if !ok {
		return v.message(answer.(*a2a.Message))
	}
	if !c.Wait {
		return v.accepted(task)
	}
	return v.wait(ctx, cl, task)
}

func (c *sendCmd) message(a *app) (a2a.Message, error) {
	if c.Stream && !c.Wait {
		return a2a.Message{}, usagef("--stream and --no-wait must not both be given")
	}
	parts, err := c.parts(a)
	if err != nil {
		return a2a.Message{}, err
	}
	m := client.UserMessage(parts...)
	m.TaskID, m.ContextID = string(c.Task), string(c.Context)
	if c.Key != "" {
		m.ID = idOfKey(string(c.Key))
	}
	return m, nil
}

// idOfKey is the message id that goes with an idempotency key: a repeated command
// must make the same request, or the server refuses it as another one.
func idOfKey(key string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdfast:idempotency-key:"+key)).String()
}

func (c *sendCmd) parts(a *app) ([]a2a.Part, error) {
	var parts []a2a.Part
	stdin := &stdinOnce{r: a.stdin}
	text := strings.Join(c.Text, " ")
	if nothing := text == "" && len(c.File) == 0 && len(c.Data) == 0; nothing || text == "-" {
		if nothing && isTerminal(a.stdin) {
			return nil, &hinted{usagef("there is nothing to send: give a text, -f FILE or --data JSON"), "see: " + a.name + " help send"}
		}
		raw, err := stdin.read()
		if err != nil {
			return nil, err
		}
		if text = strings.ToValidUTF8(string(raw), "\ufffd"); text == "" {
			return nil, usagef("there is nothing to send: stdin is empty")
		}
	}
	if text != "" {
		parts = append(parts, a2a.TextPart{Text: text})
	}
	for _, name := range c.File {
		part, err := filePart(name, stdin)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	for _, text := range c.Data {
		var data any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&data); err != nil || d.More() {
			return nil, usagef("--data %s is not JSON", a2a.Quote(text))
		}
		parts = append(parts, a2a.DataPart{Data: data})
	}
	return parts, nil
}
