package holdfast

import (
	"cmp"
	"log/slog"
	"net/url"
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
	// Field is the name of the field, such as "Lease" or "Webhooks.PerTask".
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

// complete returns c with the defaults of its own settings, and the problems of all settings.
func (c Config) complete() (Config, *config.Error) {
	c.Memory = cmp.Or(c.Memory, memory.Default())
	c.ReadCacheBytes = cmp.Or(c.ReadCacheBytes, min(32<<20, c.Memory/16))
	e := config.Apply("holdfast", &c)
	e.Require(c.Name == "", "Name")
	e.Reject(c.Store != nil && c.DataDir != "", "DataDir", nil, "and Store must not both be set")
	e.Reject(c.Dialect != "" && c.Dialect != "a2a" && c.Dialect != "bindu", "Dialect", c.Dialect, `"a2a" or "bindu"`)
	e.Reject(strings.ContainsAny(c.Tenant, "/?#:%") || len(c.Tenant) > 128, "Tenant", c.Tenant, "up to 128 bytes, without slash, question mark, hash, colon and percent sign")
	e.Reject(c.HTTPErrors != "" && c.HTTPErrors != "1.0.1" && c.HTTPErrors != "1.0.0", "HTTPErrors", c.HTTPErrors, `"1.0.1" or "1.0.0"`)
	if len(c.Tokens) > 0 {
		tokens, err := server.NewTokens(c.Tokens)
		e.Add("Tokens", err)
		e.Reject(c.Authenticator != nil, "Tokens", nil, "and Authenticator must not both be set")
		c.Authenticator = tokens
	}
	e.Reject(c.Authenticator != nil && c.Files.Concurrency < 2, "Files.Concurrency", c.Files.Concurrency, "2 or more with tokens")
	c.Description = cmp.Or(c.Description, c.Name)
	c.Version = cmp.Or(c.Version, "0.0.0")
	c.DataDir = cmp.Or(c.DataDir, DefaultDataDir)
	// The lease of a webhook is longer than a delivery attempt.
	c.Webhooks.Lease = cmp.Or(c.Webhooks.Lease, max(30*time.Second, 2*c.Webhooks.Timeout))
	if len(c.InputModes) == 0 {
		c.InputModes = []string{"text/plain"}
	}
	if len(c.OutputModes) == 0 {
		c.OutputModes = []string{"text/plain"}
	}
	if len(c.Skills) == 0 {
		c.Skills = []a2a.AgentSkill{{ID: "default", Name: c.Name, Description: c.Description, Tags: []string{"agent"}}}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	same := func(field string) string { return field }
	e.Join(c.engine().Check(), same)
	e.Join(c.server().Check(), func(field string) string { return strings.TrimPrefix(field, "Card.") })
	e.Join(c.webhook(c.Webhooks.policy(e, "Webhooks", c.Webhooks.AllowNets, c.Webhooks.AllowHosts)).Check(), func(field string) string {
		return "Webhooks." + strings.TrimPrefix(field, "Global.")
	})
	c.Webhooks.policy(e, "Files", c.Files.AllowNets, c.Files.AllowHosts)
	_, err := safehttp.ParseProxy(c.Webhooks.EgressProxy)
	e.Add("Webhooks.EgressProxy", err)
	return c, e
}

// engine returns the settings of the engine.
func (c *Config) engine() engine.Config {
	return engine.Config{
		Agent:         c.Name,
		Contracts:     c.Contracts,
		NewID:         newID,
		Logger:        c.Logger,
		Concurrency:   c.Concurrency,
		ReservedTurns: c.ReservedTurns,
		Lease:         c.Lease,
		TaskTimeout:   c.TaskTimeout,
		MaxAttempts:   c.MaxAttempts,
		RetryDelay:    c.RetryDelay,
		RetryDelayMax: max(c.RetryDelay, time.Minute),
		HandlerGrace:  c.HandlerGrace,
		FlushInterval: c.FlushInterval,
		Retention:     c.Retention,
		Limits:        c.Limits,
		MultiOwner:    c.Authenticator != nil,
		InputModes:    c.inputModes(),
		OutputModes:   c.OutputModes,
		Admit:         c.Admit,
		InlineFile:    c.Files.InlineBytes,
		LinkTTL:       c.Files.LinkTTL,
	}
}

// inputModes returns the media types that the agent or one of its skills accepts.
func (c *Config) inputModes() []string {
	modes := slices.Clone(c.InputModes)
	for i := range c.Skills {
		for _, mode := range c.Skills[i].InputModes {
			if !slices.Contains(modes, mode) {
				modes = append(modes, mode)
			}
		}
	}
	return modes
}

// server returns the settings of the server.
func (c *Config) server() server.Config {
	return server.Config{
		Card: a2a.AgentCard{
			Name: c.Name, Description: c.Description, Version: c.Version, URL: c.URL,
			Provider: c.Provider, Skills: c.Skills, AdditionalInterfaces: c.Interfaces,
			Capabilities:      a2a.AgentCapabilities{Extensions: c.Extensions},
			DefaultInputModes: c.InputModes, DefaultOutputModes: c.OutputModes,
		},
		Codecs:          []rpc.Codec{v03.Codec{Bindu: c.Dialect == "bindu"}, v10.Codec{Tenant: c.Tenant, Errors100: c.HTTPErrors == "1.0.0"}},
		Authenticator:   c.Authenticator,
		Interceptors:    c.Interceptors,
		ExtendedCard:    c.ExtendedCard,
		CardKeys:        c.CardKeys,
		StreamingOff:    c.StreamingOff,
		JSONErrors:      c.JSONErrors,
		MaxBodyBytes:    c.MaxBodyBytes,
		MaxLists:        c.MaxLists,
		MaxStreams:      c.MaxStreams,
		MaxBatchBytes:   c.MaxBatchBytes,
		ReadCacheBytes:  c.ReadCacheBytes,
		BlockingTimeout: c.BlockingTimeout,
		MessageWait:     c.MessageWait,
		CORSOrigins:     c.CORSOrigins,
		TrustedProxies:  c.TrustedProxies,
		StopGrace:       blockingGrace,
		Logger:          c.Logger,
	}
}

// webhook returns the settings of the delivery to webhooks.
func (c *Config) webhook(policy safehttp.Policy) webhook.Config {
	w := &c.Webhooks
	return webhook.Config{
		NewID: newID, Policy: policy, UserAgent: w.userAgent(), Logger: c.Logger, URL: c.URL,
		Global: webhook.Global{URL: w.URL, Token: w.Token, Secret: w.Secret}, Keys: w.Keys, Format: w.Format,
		PerTask: w.PerTask, PerMinute: w.PerMinute, InFlight: w.InFlight, PerEndpoint: w.PerEndpoint, PerOwner: w.PerOwner,
		Timeout: w.Timeout, Lease: w.Lease,
		KeepAttempts: webhookRetention(c.Retention.Age(engine.RetainAttempts)), KeepDead: webhookRetention(c.Retention.Age(engine.RetainDeadLetters)),
	}
}

// webhookRetention converts an age of [engine.Retention] to one of [webhook.Config], which
// are negative for data that is kept forever.
func webhookRetention(age time.Duration) time.Duration {
	if age == 0 {
		return -1
	}
	return age
}

// policy returns the addresses to which URLs of clients may lead: public ones, nets and hosts, which are
// fields of the given struct of Config. It adds their problems to e.
func (w *Webhooks) policy(e *config.Error, of string, nets, hosts []string) safehttp.Policy {
	parse := func(field string, params safehttp.PolicyParams) safehttp.Policy {
		policy, err := safehttp.ParsePolicy(params)
		if e != nil && (of == "Webhooks" || !strings.HasPrefix(field, "Webhooks")) {
			e.Add(field, err)
		}
		return policy
	}
	return safehttp.Policy{
		AllowNets:    parse(of+".AllowNets", safehttp.PolicyParams{AllowNets: nets}).AllowNets,
		AllowHosts:   parse(of+".AllowHosts", safehttp.PolicyParams{AllowHosts: hosts}).AllowHosts,
		NAT64:        parse("Webhooks.NAT64", safehttp.PolicyParams{NAT64: w.NAT64}).NAT64,
		RequireHTTPS: w.RequireHTTPS,
	}
}

// proxy returns the egress proxy, nil if there is none or its URL is not valid.
func (w *Webhooks) proxy() *url.URL {
	u, _ := safehttp.ParseProxy(w.EgressProxy)
	return u
}
