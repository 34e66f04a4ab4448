package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// defaultServer is the URL of serve with default settings.
const defaultServer = "http://127.0.0.1:3773"

// connection has the flags of commands that use a server.
type connection struct {
	Server    string `placeholder:"URL" envvar:"HOLDFAST_SERVER" default:"http://127.0.0.1:3773" group:"Connection:" help:"URL of the agent, its agent card or one of its endpoints."`
	Token     string `placeholder:"TOKEN" envvar:"HOLDFAST_TOKEN" group:"Connection:" help:"Bearer token. Prefer the variable: other users can see command lines."`
	Protocol  string `enum:"auto,0.3,1.0" placeholder:"VERSION" default:"auto" group:"Connection:" help:"Preferred A2A version, if the agent offers several: 0.3 or 1.0 (default auto, which prefers 0.3: its results have the members of extensions)."`
	Transport string `enum:"auto,jsonrpc,rest" placeholder:"NAME" default:"auto" group:"Connection:" help:"Preferred transport, if the agent offers several: jsonrpc or rest (default auto)."`

	cl *client.Client // nil before the first call of client
}

func (c *connection) url() string { return withScheme(c.Server) }

// withScheme returns a URL, with http:// before it if it has no scheme.
func withScheme(server string) string {
	if !strings.Contains(server, "://") {
		return "http://" + server
	}
	return server
}

// selectAgent makes an argument the URL of the agent. The token of the environment is sent only to the
// host for which it was set.
func (c *connection) selectAgent(a *app, arg string) error {
	if a.set.origins["server"].rank == byFlag {
		return command.Usagef("--server and the URL %s must not both be given", arg)
	}
	other := *c
	if other.Server = arg; hostOf(other.url()) != hostOf(c.url()) && a.set.origins["token"].rank != byFlag {
		other.Token = ""
	}
	*c = other
	return nil
}

// isURL reports whether an argument is a URL.
func isURL(arg string) bool {
	u, err := url.Parse(arg)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// config returns the configuration of the command's client.
func (c *connection) config() client.Config {
	cfg := client.Config{URL: c.url(), Token: c.Token, Header: http.Header{"User-Agent": {userAgent()}}}
	auto := func(value string) bool { return value == "" || value == "auto" }
	switch {
	case !auto(c.Protocol):
		cfg.Version = c.Protocol
	case auto(c.Transport):
		cfg.Version = client.Version03
	}
	switch c.Transport {
	case "rest":
		cfg.Transport = client.TransportREST
	default:
		cfg.Transport = client.TransportJSONRPC
	}
	return cfg
}

// client returns the client of the command. The client calls the first onReconnect, if not nil, when it
// loses a connection.
func (c *connection) client(ctx context.Context, a *app, onReconnect func(client.Reconnect)) (_ *client.Client, err error) {
	if c.cl != nil {
		return c.cl, nil
	}
	cfg := c.config()
	cfg.OnReconnect = onReconnect
	if c.cl, err = client.Discover(ctx, cfg); err != nil {
		return nil, c.explain(ctx, a, c.explainConfig(err))
	}
	return c.cl, nil
}

// explainConfig replaces the names of settings in an error by the names of flags.
func (c *connection) explainConfig(err error) error {
	var invalid *config.Error
	if !errors.As(err, &invalid) {
		return err
	}
	flags := map[string]string{"URL": "--server", "Token": "--token"}
	var lines []string
	for _, p := range invalid.Problems {
		lines = append(lines, flags[p.Field]+p.Reason(p.Value))
	}
	if strings.Contains(c.Server, "@") {
		lines = append(lines, "use --token for credentials")
	}
	return command.Usagef("%s", strings.Join(lines, "; "))
}

// inV03 returns a result in the JSON of A2A 0.3 over JSON-RPC: raw, as the agent sent it, or the encoded
// value if the agent uses another form. So the output of a command does not depend on the agent.
func inV03(cl *client.Client, raw json.RawMessage, v any) json.RawMessage {
	if i := cl.Interface(); i.ProtocolVersion == client.Version03 && i.Transport == client.TransportJSONRPC {
		return raw
	}
	own, err := v03.Codec{}.AppendResult(nil, nil, v)
	if err != nil {
		return raw
	}
	return own
}

// flags returns the flags that select the same server, for hints.
func (c *connection) flags() string {
	return serverFlag(c.Server)
}

// serverFlag returns the flag that selects a server, with a space before it, or "" for the default server.
func serverFlag(server string) string {
	if withScheme(server) == defaultServer {
		return ""
	}
	return " --server " + quoteShell(server)
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
	var own *command.HintError
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
	case a2a.CodeUnauthenticated, a2a.CodeCredentialsExpired, a2a.CodeInvalidSignature, a2a.CodeDenied:
		hint = "set a token with --token or HOLDFAST_TOKEN"
		if c.Token != "" {
			hint = "the server does not accept this token for this request"
		}
	case a2a.CodeTaskNotFound:
		hint = "`" + a.name + " tasks list" + c.flags() + "` shows your tasks"
	case a2a.CodeContextNotFound:
		hint = "`" + a.name + " contexts list" + c.flags() + "` shows your contexts"
	case a2a.CodeInvalidAgentResponse:
		hint = "check --server: it must be the URL of an A2A agent, such as " + defaultServer
	case a2a.CodeMethodNotFound:
		if coded.Err != nil { // by the client
			hint = "agents served by Holdfast support it"
			break
		}
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
	return command.WithHint(err, hint)
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
