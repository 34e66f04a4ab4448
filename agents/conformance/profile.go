package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

// Bearer tokens of the profiles with authentication.
const (
	// Token may do everything.
	Token = "itk-valid-token"
	// InsufficientToken may only read tasks.
	InsufficientToken = "itk-insufficient-token"
	// OtherToken is the token of another user.
	OtherToken = "itk-other-token"
)

// Profile is a configuration of the agent for some tests of a kit.
type Profile struct {
	// Name identifies the profile on the command line.
	Name string
	// Summary is a one-line description.
	Summary string
	// Default is [Config.Default].
	Default string

	set func(*holdfast.Config)
}

// Profiles returns all profiles.
func Profiles() []Profile {
	const complete = "tck-complete-task"
	return []Profile{
		{"v03", "A2A 0.3: all capabilities, credentials only for the extended card", Wait, with(extendedCard)},
		{"v03-noPush", "A2A 0.3 without webhooks", Wait, with(noWebhooks)},
		{"v03-auth", "A2A 0.3 with bearer tokens", Wait, with(tokens, extendedCard)},
		{"v10", "A2A 1.0: all capabilities, no authentication", complete, with(jsonErrors, errors100, messages, anyMediaType)},
		{"v10-off", "A2A 1.0 without streaming and webhooks", complete, with(jsonErrors, errors100, noWebhooks, noStreaming, anyMediaType)},
		{"v10-ext", "A2A 1.0 with a required extension", complete, with(jsonErrors, requiredExtension)},
		{"acts", "ACTS: all capabilities, credentials only for the extended card", complete, with(jsonErrors, messages, listedMediaTypes, extendedCard)},
		{"acts-auth", "ACTS with bearer tokens", complete, with(jsonErrors, messages, listedMediaTypes, tokens, extendedCard)},
		{"acts-reduced", "ACTS without streaming, webhooks and an extended card", complete, with(jsonErrors, messages, listedMediaTypes, noWebhooks, noStreaming)},
	}
}

func with(settings ...func(*holdfast.Config)) func(*holdfast.Config) {
	return func(cfg *holdfast.Config) {
		for _, set := range settings {
			set(cfg)
		}
	}
}

// jsonErrors responds with JSON to requests that accept only events, as ACTS and the kit for A2A
// 1.0 expect.
func jsonErrors(cfg *holdfast.Config) { cfg.Requests.JSONErrors = true }

// errors100 responds with the statuses of A2A 1.0.0, which the kit for A2A 1.0 expects.
func errors100(cfg *holdfast.Config) { cfg.Protocol.HTTPErrors = "1.0.0" }

// messages lets streams have a message as their only item.
func messages(cfg *holdfast.Config) { cfg.Requests.MessageWait = time.Second }

// anyMediaType accepts parts of any media type, for which the kit for A2A 1.0 expects success.
func anyMediaType(cfg *holdfast.Config) { cfg.Card.DefaultInputModes = []string{"text/plain", "*/*"} }

// listedMediaTypes accepts only parts of listed media types.
func listedMediaTypes(cfg *holdfast.Config) {
	cfg.Card.DefaultInputModes = []string{"text/plain", "application/json", "application/octet-stream"}
}

func noWebhooks(cfg *holdfast.Config) { cfg.Webhooks.Off = true }

func noStreaming(cfg *holdfast.Config) { cfg.Requests.StreamingOff = true }

// requiredExtension requires the extension that the kit for A2A 1.0 knows.
func requiredExtension(cfg *holdfast.Config) {
	cfg.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:a2a:tck:required-extension", Description: "Every call must activate it.", Required: true}}
}

// tokens requires one of the tokens.
func tokens(cfg *holdfast.Config) {
	cfg.Tokens = []server.Token{
		{Token: Token, Principal: a2a.Principal{ID: "kit"}},
		{Token: OtherToken, Principal: a2a.Principal{ID: "other"}},
		{Token: InsufficientToken, Principal: a2a.Principal{ID: "reader", Scopes: []a2a.Scope{a2a.ScopeRead}}},
	}
}

// extendedCard adds an extended card for authenticated callers. Without tokens, callers without
// credentials may do everything else.
func extendedCard(cfg *holdfast.Config) {
	if len(cfg.Tokens) == 0 {
		cfg.Security.Authenticator = optionalToken{}
	}
	cfg.Security.ExtendedCard = func(_ context.Context, caller a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
		if !caller.May(a2a.ScopeWrite) {
			return nil, a2a.Errorf(a2a.CodeDenied, "the extended agent card requires the scope %s", a2a.ScopeWrite)
		}
		card.Skills = append(card.Skills, a2a.AgentSkill{
			ID: "extended", Name: "Extended", Description: "A skill that only authenticated callers see.", Tags: []string{"conformance"},
		})
		return &card, nil
	}
}

// optionalToken is an authenticator that accepts [Token] and requests without credentials.
type optionalToken struct{}

// Authenticate implements [server.Authenticator].
func (optionalToken) Authenticate(r *http.Request) (a2a.Principal, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return a2a.Principal{ID: a2a.Anonymous}, nil
	case "Bearer " + Token:
		return a2a.Principal{ID: "kit"}, nil
	}
	return a2a.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "unknown bearer token")
}

// Challenge implements [server.Authenticator].
func (optionalToken) Challenge(*http.Request) string { return `Bearer realm="conformance"` }

// Security declares no scheme, because no request needs credentials.
func (optionalToken) Security() (map[string]a2a.SecurityScheme, []map[string][]string) {
	return nil, nil
}

// ProfileByName returns the profile with the given name, or an error that lists the names.
func ProfileByName(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("unknown profile %q, want one of %s", name, strings.Join(names, ", "))
}

// Agent returns the agent of the profile. cfg has the store, the address and the log; the
// profile sets everything else. Webhooks of this machine are allowed, because the kits receive
// them there.
func (p Profile) Agent(cfg holdfast.Config) (*holdfast.Agent, error) {
	Describe(&cfg)
	cfg.Webhooks.AllowNets = []string{"127.0.0.0/8", "::1/128"}
	cfg.Webhooks.Format = a2a.PayloadTask
	cfg.Turns.Admit = admit
	p.set(&cfg)
	return holdfast.New(cfg, New(Config{Default: p.Default}))
}

// admit rejects the contextId with which ACTS expects an error.
func admit(_ context.Context, p engine.AdmitParams) (a engine.Admission, err error) {
	if p.Message.ContextID == "client-generated-context-that-should-be-rejected" {
		err = a2a.Invalid("message.contextId", "must be the id of a context of this agent")
	}
	return a, err
}
