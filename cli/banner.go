package cli

import (
	"encoding/json"
	"log/slog"
	"net"
	"os"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// banner announces that serve is ready.
type banner struct {
	a       *app
	cfg     holdfast.Config
	access  *access
	agent   chosenAgent
	addr    net.Addr
	grpc    net.Listener // nil without gRPC
	tls     bool
	storage storage
	log     *slog.Logger
	jsonLog bool // log the announcement instead of printing it
}

func (b *banner) print() {
	if b.a.JSON {
		b.printJSON()
	} else if !b.jsonLog {
		b.printText()
	}
	if b.jsonLog {
		b.log.Info("listening", "url", b.url(), "agent", b.cfg.Name, "storage", b.storage.kind, "data", b.storage.location(),
			"tokens", b.access.auth != nil, "version", readBuild().Version)
		if b.grpc != nil {
			b.log.Info("listening for gRPC", "addr", b.grpcAddr())
		}
	}
	for _, text := range b.cfg.Security.Warnings {
		b.log.Warn("access", "problem", text, "addr", b.addr.String())
	}
}

func (b *banner) printText() {
	o := b.a.Out
	location := b.storage.location()
	switch {
	case b.storage.inMemory:
		location = "in memory (lost when the process ends)"
	case b.storage.label != "":
		location += " (" + b.storage.label + ")"
	}
	if source := b.storage.chosenBy; b.storage.url != "" && source != "" && b.a.set.origins["storage"].rank == byDefault {
		location += " (selected by " + source + ")"
	}
	access := "any client that can reach this address (no tokens are set)"
	if b.access.auth != nil {
		access = b.access.describe()
	}
	o.Line("holdfast %s", readBuild().Version)
	o.Line("")
	o.Line("  listening  %s", o.Bold(b.url()))
	if b.grpc != nil {
		o.Line("  gRPC       %s", b.grpcAddr())
	}
	o.Line("  agent      %s", b.agent.label)
	o.Line("  data       %s", location)
	o.Line("  access     %s", access)
	o.Line("")
	o.Line("Try it from another terminal:")
	o.Line("")
	o.Line("  %s", b.curl())
	o.Line("")
	o.Line("Or: %s send%s 'your text' or -f FILE. Stop with Ctrl-C.", b.a.name, serverFlag(b.url()))
}

func (b *banner) printJSON() {
	raw, _ := json.Marshal(struct { // plain strings: cannot fail
		URL      string `json:"url"`
		GRPC     string `json:"grpc,omitempty"`
		Agent    string `json:"agent"`
		Storage  string `json:"storage"`
		Data     string `json:"data,omitempty"`
		Database string `json:"database,omitempty"`
		Schema   string `json:"schema,omitempty"`
		Tokens   bool   `json:"tokens"`
		Version  string `json:"version"`
		PID      int    `json:"pid"`
	}{b.url(), b.grpcAddr(), b.cfg.Name, b.storage.kind, b.storage.data, b.storage.url, b.storage.cfg.Schema, b.access.auth != nil, readBuild().Version, os.Getpid()})
	b.a.Out.JSON(raw)
}

func (b *banner) stopping() {
	unfinished := "resume at the next start"
	switch {
	case b.storage.inMemory:
		unfinished = "are lost: the storage is memory"
	case b.storage.shared:
		unfinished = "resume on another replica or at the next start"
	}
	b.log.Info("stopping: waiting for running tasks; a second signal stops at once", "grace", b.cfg.StopGrace.String(), "unfinished_tasks", unfinished)
}

// grpcAddr returns the address of the gRPC server, "" if there is none.
func (b *banner) grpcAddr() string {
	if b.grpc == nil {
		return ""
	}
	return b.grpc.Addr().String()
}

// url returns the URL of the server for clients on this machine.
func (b *banner) url() string {
	scheme := "http://"
	if b.tls {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(b.addr.String())
	if err != nil {
		return scheme + b.addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// curl returns a shell command that sends an example message to the agent.
func (b *banner) curl() string {
	params, _ := wire.Marshal(a2a.MessageSendParams{ // constant values: cannot fail
		Message: a2a.Message{
			ID: "try-1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: b.agent.try}},
		},
		Configuration: &a2a.MessageSendConfiguration{Blocking: true},
	})
	line := "curl -sS " + b.url()
	if b.access.auth != nil {
		line += ` -H "Authorization: Bearer $HOLDFAST_TOKEN"`
	}
	return line + ` -H 'Content-Type: application/json' -d ` +
		quoteShell(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":`+string(params)+`}`)
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
