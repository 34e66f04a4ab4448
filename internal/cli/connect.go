package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// defaultServer is the URL of serve with default settings.
const defaultServer = "http://127.0.0.1:3773"

// connection has the flags of commands that use a server.
type connection struct {
	Server string `placeholder:"URL" envvar:"HOLDFAST_SERVER" default:"http://127.0.0.1:3773" group:"Connection:" help:"URL of the agent."`
	Token  string `placeholder:"TOKEN" envvar:"HOLDFAST_TOKEN" group:"Connection:" help:"Bearer token. Prefer the variable: other users can see command lines."`

	cl *client.Client // nil before the first call of client
}

func (c *connection) url() string {
	if !strings.Contains(c.Server, "://") {
		return "http://" + c.Server
	}
	return c.Server
}

// client returns the client of the command. The client calls the first onReconnect, if not nil, when it
// loses a connection.
func (c *connection) client(onReconnect func(client.Reconnect)) (_ *client.Client, err error) {
	if c.cl != nil {
		return c.cl, nil
	}
	c.cl, err = client.New(client.Config{
		URL: c.url(), Token: c.Token, OnReconnect: onReconnect,
		Header: http.Header{"User-Agent": {userAgent()}},
	})
	if err != nil {
		return nil, usagef("%s", strings.NewReplacer("client config: ", "", "URL must", "--server must", "Token contains", "--token contains", "use Token", "use --token", "\n", "; ").Replace(err.Error()))
	}
	return c.cl, nil
}

// flags returns the flags that select the same server, for hints.
func (c *connection) flags() string {
	if c.url() == defaultServer {
		return ""
	}
	return " --server " + quoteShell(c.Server)
}

// explain adds a hint to an error of a call.
func (c *connection) explain(ctx context.Context, a *app, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, errInterrupted) {
		return cause
	}
	var status exitStatus
	var own *hintError
	var coded *a2a.Error
	if errors.As(err, &status) || errors.As(err, &own) || !errors.As(err, &coded) {
		return err
	}
	hint := ""
	switch coded.Code {
	case a2a.CodeUnavailable:
		if coded.Err == nil {
			return err // sent by the server
		}
		hint = "is `" + a.name + " serve` running there? start it, or set --server to another server"
	case a2a.CodeUnauthenticated, a2a.CodeDenied:
		hint = "set a token with --token or HOLDFAST_TOKEN"
		if c.Token != "" {
			hint = "the server does not accept this token for this request"
		}
	case a2a.CodeTaskNotFound:
		hint = "`" + a.name + " tasks list" + c.flags() + "` shows your tasks"
	case a2a.CodeContextNotFound:
		hint = "`" + a.name + " contexts list" + c.flags() + "` shows your conversations"
	case a2a.CodeInvalidAgentResponse:
		hint = "check --server: it must be the URL of an A2A agent, such as " + defaultServer
	case a2a.CodeMethodNotFound:
		hint = "`" + a.name + " help call` lists the methods of this version"
		if coded.Data["httpStatus"] != nil { // the server does not know the path
			hint = "check the path of --server: it must be the URL of an A2A agent, such as " + defaultServer
		}
	case a2a.CodePushNotSupported:
		hint = "webhooks are disabled on this server: serve --webhooks enables them"
	case a2a.CodeTooLarge:
		hint = "files are sent as base64 in the message, which adds a third to their size; serve --max-body raises the server's limit"
	case a2a.CodeExhausted:
		hint = "retry later"
	default:
		return err
	}
	return &hintError{err, hint}
}

// quoteShell quotes s for a POSIX shell if necessary.
func quoteShell(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
