package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// callCmd calls a method with JSON params.
type callCmd struct {
	Method string `arg:"" help:"Method name, such as tasks/get or GetTask."`
	Params string `arg:"" optional:"" name:"json" help:"Params, a JSON object; - reads them from stdin (default none)."`

	connection
}

// Help implements [kong.HelpProvider].
func (callCmd) Help() string {
	var b strings.Builder
	b.WriteString("Prints the result as the server sends it: indented on a terminal, else on one line. Streaming methods print one event per line. The params are in the version of the method name, 0.3 or 1.0.\n\nExamples:\n\n" +
		"    holdfast call tasks/list '{\"pageSize\": 1}'\n" +
		"    holdfast call message/stream - < params.json\n\nMethods of this version:\n\n")
	width := 0
	for _, m := range a2a.Methods() {
		width = max(width, len(m.Name))
	}
	for _, m := range a2a.Methods() {
		fmt.Fprintf(&b, "    %-*s  %s\n", width, m.Name, m.Summary)
	}
	return b.String()
}

// Run makes the call.
func (c *callCmd) Run(ctx context.Context, a *app) error {
	params, err := c.params(a)
	if err != nil {
		return err
	}
	method, known := a2a.MethodByName(c.Method)
	if known && c.Method == method.NameV10 && c.Protocol == "auto" {
		c.Protocol = client.Version10
	}
	cl, err := c.client(ctx, a, nil)
	if err != nil {
		return err
	}
	if known && method.Streaming {
		for u, err := range cl.CallStream(ctx, c.Method, params) {
			if err != nil {
				return c.explain(ctx, a, err)
			}
			a.Out.JSON(u.Raw)
		}
		return nil
	}
	raw, err := cl.Call(ctx, c.Method, params)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	a.writeJSON(raw)
	return nil
}

func (c *callCmd) params(a *app) (json.RawMessage, error) {
	text := []byte(c.Params)
	if c.Params == "-" {
		var err error
		if text, err = readLimited(a.Stdin, "stdin"); err != nil {
			return nil, err
		}
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, nil
	}
	if err := wire.Valid(text); err != nil {
		return nil, command.Usagef("params: %s", err)
	}
	return text, nil
}

// writeJSON writes a result, indented on a terminal unless --json is set.
func (a *app) writeJSON(raw json.RawMessage) {
	var b bytes.Buffer
	if !a.Out.Terminal || a.JSON || json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	b.WriteByte('\n')
	a.Out.Raw(b.Bytes())
}
