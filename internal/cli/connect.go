package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// defaultServer is where serve listens when nothing else is said.
const defaultServer = "http://127.0.0.1:3773"

// connection are the flags of commands that talk to a server.
type connection struct {
	Server string `placeholder:"URL" envvar:"HOLDFAST_SERVER" default:"http://127.0.0.1:3773" group:"Connection:" help:"The agent's URL. Default: ${default}."`
	Token  string `placeholder:"TOKEN" envvar:"HOLDFAST_TOKEN" group:"Connection:" help:"Bearer token. Better in the environment, where other users do not see it."`
}

func (c *connection) url() string {
	if !strings.Contains(c.Server, "://") {
		return "http://" + c.Server
	}
	return c.Server
}

// client returns a client whose reconnects are told by onReconnect.
func (c *connection) client(onReconnect func(client.Reconnect)) (*client.Client, error) {
	cl, err := client.New(client.Config{
		URL: c.url(), Token: c.Token, OnReconnect: onReconnect,
		Header: http.Header{"User-Agent": {userAgent()}},
	})
	if err != nil {
		return nil, usagef("%s", strings.NewReplacer("client config: ", "", "URL must", "--server must", "Token has", "--token has", "use Token", "use --token", "\n", "; ").Replace(err.Error()))
	}
	return cl, nil
}

// flags are the flags that reach the same server again, for hints.
func (c *connection) flags() string {
	if c.url() == defaultServer {
		return ""
	}
	return " --server " + quoteShell(c.Server)
}

// explain adds to an error of a call what to do about it.
func (c *connection) explain(ctx context.Context, a *app, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, errInterrupted) {
		return cause
	}
	var status exitStatus
	var own *hinted
	var coded *a2a.Error
	if errors.As(err, &status) || errors.As(err, &own) || !errors.As(err, &coded) {
		return err
	}
	hint := ""
	switch coded.Code {
	case a2a.CodeUnavailable:
		if coded.Err == nil {
			return err // the server says so itself
		}
		hint = "is `" + a.name + " serve` running there? start it, or name another server with --server"
	case a2a.CodeUnauthenticated, a2a.CodeDenied:
		hint = "give a token with --token or in HOLDFAST_TOKEN"
		if c.Token != "" {
			hint = "the token that was given is not one the server knows for this"
		}
	case a2a.CodeTaskNotFound:
		hint = "`" + a.name + " tasks list" + c.flags() + "` shows your tasks"
	case a2a.CodeContextNotFound:
		hint = "`" + a.name + " contexts list" + c.flags() + "` shows your conversations"
	case a2a.CodeInvalidAgentResponse:
		hint = "check --server: it must be the URL of an A2A agent, such as " + defaultServer
	case a2a.CodeMethodNotFound:
		hint = "`" + a.name + " help call` lists the methods of this version"
		if coded.Data["httpStatus"] != nil { // it is the path that is not known
			hint = "check the path of --server: it must be the URL of an A2A agent, such as " + defaultServer
		}
	case a2a.CodePushNotSupported:
		hint = "webhooks are off at this server: serve --webhooks turns them on"
	case a2a.CodeTooLarge:
		hint = "files travel inside the message, as base64, which makes them a third larger; serve --max-body raises the limit of the server"
	case a2a.CodeExhausted:
		hint = "wait a little and try again"
	default:
		return err
	}
	return &hinted{err, hint}
}

// quoteShell quotes s for a POSIX shell, if it needs that.
func quoteShell(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
