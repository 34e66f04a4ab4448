package holdfast

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/webhook"
)

// ConfigError lists all problems of a [Config].
type ConfigError struct {
	Problems []ConfigProblem
}

// ConfigProblem is an invalid field of a [Config].
type ConfigProblem struct {
	// Field is the name of the field, such as "Turns.Lease" or "Webhooks.Limits.PerTask".
	Field string
	// Value is the invalid value; nil if it is missing or may be secret.
	Value any
	// Rule is the rule that the value breaks, such as "100ms or more"; "" if Err is set.
	Rule string
	// Err is why the value is invalid, if a rule alone does not say it.
	Err error
}

func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return "holdfast config: " + strings.Join(lines, "\n")
}

func (p ConfigProblem) Error() string { return config.Problem(p).Error() }

// Check returns a [*ConfigError] with all problems of c, or nil. It opens nothing. [New] calls it.
func (c Config) Check() error {
	_, e := c.complete()
	return configError(e)
}

func configError(e *config.Error) error {
	if len(e.Problems) == 0 {
		return nil
	}
	public := &ConfigError{}
	for _, p := range e.Problems {
		public.Problems = append(public.Problems, ConfigProblem(p))
	}
	return public
}

// complete returns c with the defaults of its settings, and the problems of all settings.
func (c Config) complete() (Config, *config.Error) {
	c.Memory = cmp.Or(c.Memory, memory.Default())
	e := config.Apply("holdfast", &c)
	e.Require(c.Name == "", "Name")
	e.Reject(c.Store != nil && c.DataDir != "", "DataDir", nil, "and Store must not both be set")
	c.Protocol.check(e)
	if len(c.Tokens) > 0 {
		tokens, err := server.NewTokens(c.Tokens)
		e.Add("Tokens", err)
		e.Reject(c.Security.Authenticator != nil, "Tokens", nil, "and Security.Authenticator must not both be set")
		c.Security.Authenticator = tokens
	}
	e.Reject(c.authenticates() && c.Fetch.Concurrency < 2, "Fetch.Concurrency", c.Fetch.Concurrency, "2 or more with tokens")
	c.DataDir = cmp.Or(c.DataDir, DefaultDataDir)
	c.Card = c.card(e)
	c.Webhooks.UserAgent = cmp.Or(c.Webhooks.UserAgent, defaultUserAgent())
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	same := func(field string) string { return field }
	e.Join(c.engine().Check(), same)
	e.Join(c.server().Check(), same)
	e.Join(c.webhook().Check(), func(field string) string { return "Webhooks." + strings.TrimPrefix(field, "Settings.") })
	c.fetchPolicy(e)
	return c, e
}

// check adds the problems of p to e.
func (p *Protocol) check(e *config.Error) {
	e.Reject(p.Dialect != "" && p.Dialect != "a2a" && p.Dialect != "bindu", "Protocol.Dialect", p.Dialect, `"a2a" or "bindu"`)
	e.Reject(p.HTTPErrors != "" && p.HTTPErrors != "1.0.1" && p.HTTPErrors != "1.0.0", "Protocol.HTTPErrors", p.HTTPErrors, `"1.0.1" or "1.0.0"`)
	e.Reject(strings.ContainsAny(p.Tenant, "/?#:%") || len(p.Tenant) > 128, "Protocol.Tenant", p.Tenant, "up to 128 bytes, without slash, question mark, hash, colon and percent sign")
}

// card returns the agent card with its defaults. It adds its problems to e.
func (c *Config) card(e *config.Error) a2a.AgentCard {
	card := c.Card
	e.Reject(card.Name != "" && card.Name != c.Name, "Card.Name", card.Name, "the same as Name, or empty")
	card.Name = c.Name
	card.Description = cmp.Or(card.Description, c.Name)
	card.Version = cmp.Or(card.Version, "0.0.0")
	if len(card.DefaultInputModes) == 0 {
		card.DefaultInputModes = []string{"text/plain"}
	}
	if len(card.DefaultOutputModes) == 0 {
		card.DefaultOutputModes = []string{"text/plain"}
	}
	if len(card.Skills) == 0 {
		card.Skills = []a2a.AgentSkill{{ID: "default", Name: c.Name, Description: card.Description, Tags: []string{"agent"}}}
	}
	return card
}

// authenticates reports whether the agent identifies its callers.
func (c *Config) authenticates() bool { return c.Security.Authenticator != nil }

// engine returns the settings of the engine.
func (c *Config) engine() engine.Config {
	return engine.Config{
		Agent: c.Name, NewID: newID, Logger: c.Logger, MultiOwner: c.authenticates(), InputModes: c.inputModes(), OutputModes: c.Card.DefaultOutputModes,
		Contracts: c.Contracts, Turns: c.Turns, Limits: c.Limits, Retention: c.Retention, Files: c.Files,
	}
}

// inputModes returns the media types that the agent or one of its skills accepts.
func (c *Config) inputModes() []string {
	modes := slices.Clone(c.Card.DefaultInputModes)
	for i := range c.Card.Skills {
		for _, mode := range c.Card.Skills[i].InputModes {
			if !slices.Contains(modes, mode) {
				modes = append(modes, mode)
			}
		}
	}
	return modes
}

// server returns the settings of the server.
func (c *Config) server() server.Config {
	p := &c.Protocol
	return server.Config{
		Card: c.Card, Security: c.Security, Requests: c.Requests, StopGrace: blockingGrace, Logger: c.Logger,
		Codecs: []rpc.Codec{v03.Codec{Bindu: p.Dialect == "bindu"}, v10.Codec{Tenant: p.Tenant, Errors100: p.HTTPErrors == "1.0.0"}},
	}
}

// webhook returns the settings of the delivery to webhooks.
func (c *Config) webhook() webhook.Config {
	return webhook.Config{
		Settings: c.Webhooks, NewID: newID, Logger: c.Logger, URL: c.Card.URL,
		KeepAttempts: webhookRetention(c.Retention.Age(engine.RetainAttempts)), KeepDead: webhookRetention(c.Retention.Age(engine.RetainDeadLetters)),
	}
}

// webhookRetention converts an age of [engine.Retention] to an age of [webhook.Config], where a
// negative age keeps data forever.
func webhookRetention(age time.Duration) time.Duration {
	if age == 0 {
		return -1
	}
	return age
}

// fetchPolicy returns the addresses of files that may be fetched. It adds the problems of the settings of
// Fetch to e.
func (c *Config) fetchPolicy(e *config.Error) safehttp.Policy {
	nets, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowNets: c.Fetch.AllowNets})
	e.Add("Fetch.AllowNets", err)
	hosts, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowHosts: c.Fetch.AllowHosts})
	e.Add("Fetch.AllowHosts", err)
	policy, _ := safehttp.ParsePolicy(safehttp.PolicyParams{NAT64: c.Webhooks.NAT64, RequireHTTPS: c.Webhooks.RequireHTTPS}) // webhook.Config.Check reports its problems
	policy.AllowNets, policy.AllowHosts = nets.AllowNets, hosts.AllowHosts
	return policy
}
