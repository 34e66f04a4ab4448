package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
)

// sendCmd sends a message.
type sendCmd struct {
	Text    []string         `arg:"" optional:"" help:"Message text; - reads it from stdin (default stdin, if no text, file or data is given). If the first of several arguments is a URL, it is the agent's."`
	File    []string         `short:"f" sep:"none" placeholder:"FILE" group:"Message:" help:"Attach a file to the message; - is stdin. Repeatable. A URL is sent unchanged, and the agent fetches it."`
	Data    []string         `sep:"none" placeholder:"JSON" group:"Message:" help:"Attach structured data, such as '{\"sentences\": 5}'. Repeatable."`
	Task    command.NonEmpty `placeholder:"ID" group:"Message:" help:"Continue this task: answer its question or add a message."`
	Context command.NonEmpty `placeholder:"ID" group:"Message:" help:"Add the task to this context. An unknown id starts a new context."`
	Key     command.NonEmpty `name:"idempotency-key" placeholder:"KEY" group:"Message:" help:"Idempotency key: the agent accepts the message once per key. Lost connections are then retried."`

	Wait   bool `negatable:"" default:"true" group:"Answer:" help:"Wait until the task is final or asks for input, and print the result (default on). --no-wait prints the task id and exits."`
	Stream bool `group:"Answer:" help:"Print progress and results as they arrive."`

	inlineWebhook

	connection
}

// Run sends the message and shows the answer.
func (c *sendCmd) Run(ctx context.Context, a *app) error {
	if len(c.Text) > 0 && isURL(c.Text[0]) && len(c.Text)+len(c.File)+len(c.Data) > 1 {
		if err := c.selectAgent(a, c.Text[0]); err != nil {
			return err
		}
		c.Text = c.Text[1:]
	}
	if len(c.Text) == 1 && isURL(c.Text[0]) && hasInput(a.Stdin) {
		return command.Usagef("stdin has input, and the only argument is a URL: to send stdin to the agent at the URL, add the argument -; to send the URL as text, use < /dev/null")
	}
	message, err := c.message(a)
	if err != nil {
		return err
	}
	v := newViewer(a, &c.connection, c.Stream)
	cl, err := c.client(ctx, a, v.reconnecting)
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
	return c.explain(ctx, a, explainURL(a, v.detach(ctx, err), c.Webhook))
}

// inputWait is how long hasInput waits for the first byte.
const inputWait = 200 * time.Millisecond

// hasInput reports whether stdin is no terminal and has input. It may consume the first byte.
func hasInput(stdin io.Reader) bool {
	if command.IsTerminal(stdin) {
		return false
	}
	found := make(chan bool, 1)
	go func() { // ends with the process if nothing arrives
		n, _ := stdin.Read(make([]byte, 1))
		found <- n > 0
	}()
	select {
	case has := <-found:
		return has
	case <-time.After(inputWait):
		return false
	}
}

// send sends the message without waiting, so that the task's id is known at once. Then it follows the
// task if c.Wait is set, which survives lost connections and restarts of the server.
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
		return a2a.Message{}, command.Usagef("--stream and --no-wait must not both be given")
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

// idOfKey returns the message id for an idempotency key. A repeated command must send the same
// request, or the server rejects it.
func idOfKey(key string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdfast:idempotency-key:"+key)).String()
}

func (c *sendCmd) parts(a *app) ([]a2a.Part, error) {
	var parts []a2a.Part
	stdin := &stdinOnce{r: a.Stdin}
	text := strings.Join(c.Text, " ")
	if nothing := text == "" && len(c.File) == 0 && len(c.Data) == 0; nothing || text == "-" {
		if nothing && command.IsTerminal(a.Stdin) {
			return nil, command.WithHint(command.Usagef("nothing to send: give a text, -f FILE or --data JSON"), "see: "+a.name+" help send")
		}
		raw, err := stdin.read()
		if err != nil {
			return nil, err
		}
		if text = strings.ToValidUTF8(string(raw), "\ufffd"); text == "" {
			return nil, command.Usagef("nothing to send: stdin is empty")
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
			return nil, command.Usagef("--data %s is not JSON", a2a.Quote(text))
		}
		parts = append(parts, a2a.DataPart{Data: data})
	}
	return parts, nil
}
