package cli

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/webhook"
)

// egressFlags configure which webhook URLs are allowed and how they are reached.
type egressFlags struct {
	AllowNets    []string `name:"webhook-allow-nets" placeholder:"CIDR" envvar:"HOLDFAST_WEBHOOK_ALLOW_NETS" also:"PUSH_ALLOW_NETS" group:"Webhooks:" help:"Allow webhooks in this non-public network, such as 10.1.0.0/16. Repeatable (default none)."`
	AllowHosts   []string `name:"webhook-allow-hosts" placeholder:"HOST:PORT" envvar:"HOLDFAST_WEBHOOK_ALLOW_HOSTS" also:"PUSH_ALLOW_HOSTS" group:"Webhooks:" help:"Allow webhooks to this HOST:PORT whatever address it resolves to, such as localhost:8888. Repeatable (default none)."`
	RequireHTTPS bool     `name:"webhook-require-https" envvar:"HOLDFAST_WEBHOOK_REQUIRE_HTTPS" also:"PUSH_REQUIRE_HTTPS" group:"Webhooks:" help:"Reject webhooks that are not https."`
	EgressProxy  string   `name:"webhook-egress-proxy" secret:"" placeholder:"URL" envvar:"HOLDFAST_WEBHOOK_EGRESS_PROXY" also:"PUSH_EGRESS_PROXY" group:"Webhooks:" help:"Send webhook requests through this HTTP proxy, with CONNECT to the checked address. HTTP_PROXY and similar variables are ignored."`
	NAT64        []string `name:"webhook-nat64" placeholder:"PREFIX" envvar:"HOLDFAST_WEBHOOK_NAT64" also:"PUSH_NAT64" group:"Webhooks:" help:"IPv6 prefix of this site that embeds IPv4 addresses (RFC 6052); the embedded address is checked. Repeatable (default none)."`
}

// webhookFlags has the settings of webhooks.
type webhookFlags struct {
	Webhooks     bool   `negatable:"" default:"true" envvar:"HOLDFAST_WEBHOOKS" group:"Webhooks:" help:"Accept and deliver webhooks (default on). With --no-webhooks, webhooks are rejected and nothing is sent."`
	WebhookURL   string `name:"webhook-url" secret:"" placeholder:"URL" envvar:"HOLDFAST_WEBHOOK_URL" also:"WEBHOOK_URL" group:"Webhooks:" help:"Global webhook: receives the events of every task that has no webhook of its own."`
	WebhookToken string `name:"webhook-token" secret:"all" placeholder:"TOKEN" envvar:"HOLDFAST_WEBHOOK_TOKEN" also:"WEBHOOK_TOKEN" group:"Webhooks:" help:"Token for --webhook-url, sent as bearer token and in X-A2A-Notification-Token. Prefer the variable: other users can see command lines."`

	WebhookSecret string `name:"webhook-secret" secret:"all" placeholder:"SECRET" envvar:"HOLDFAST_WEBHOOK_SECRET" also:"WEBHOOK_SECRET" group:"Webhooks:" help:"Secret that signs requests to --webhook-url: whsec_ and the base64 of 24 to 64 bytes (default no signature)."`

	egressFlags

	SecretKeys     []string `name:"webhook-encryption-key" secret:"all" placeholder:"KEY" envvar:"HOLDFAST_WEBHOOK_ENCRYPTION_KEY" also:"HOLDFAST_WEBHOOK_ENCRYPTION_KEYS,PUSH_SECRET_KEY,PUSH_SECRET_KEYS" group:"Webhooks:" help:"Key that encrypts webhook secrets in the store: 32 bytes in base64 or hex. Repeatable, newest first; older keys only decrypt (default no encryption)."`
	SecretKeysFile string   `name:"webhook-encryption-keys-file" placeholder:"FILE" envvar:"HOLDFAST_WEBHOOK_ENCRYPTION_KEYS_FILE" also:"PUSH_SECRET_KEYS_FILE" group:"Webhooks:" help:"File with encryption keys, one per line, newest first; # starts a comment."`

	WebhookTimeout time.Duration `name:"webhook-timeout" placeholder:"DURATION" envvar:"HOLDFAST_WEBHOOK_TIMEOUT" also:"PUSH_TIMEOUT" default:"15s" group:"Webhooks:" help:"Timeout of a webhook request (default ${default})."`
	PerTask        int           `name:"webhook-per-task" placeholder:"N" envvar:"HOLDFAST_WEBHOOK_PER_TASK" also:"PUSH_PER_TASK" default:"10" group:"Webhooks:" help:"Maximum number of webhooks of a task (default ${default})."`
	PerMinute      int           `name:"webhook-per-minute" placeholder:"N" envvar:"HOLDFAST_WEBHOOK_PER_MINUTE" also:"PUSH_PER_MINUTE" default:"100" group:"Webhooks:" help:"Maximum number of webhooks that a principal may register per minute (default ${default})."`
	InFlight       int           `name:"webhook-in-flight" placeholder:"N" envvar:"HOLDFAST_WEBHOOK_IN_FLIGHT" also:"PUSH_IN_FLIGHT" default:"512" group:"Webhooks:" help:"Maximum number of concurrent webhook requests (default ${default})."`
	PerEndpoint    int           `name:"webhook-per-endpoint" placeholder:"N" envvar:"HOLDFAST_WEBHOOK_PER_ENDPOINT" also:"PUSH_PER_ENDPOINT" default:"8" group:"Webhooks:" help:"Maximum number of concurrent webhook requests to one scheme, host and port (default ${default})."`
	PerAddress     int           `name:"webhook-per-address" placeholder:"N" envvar:"HOLDFAST_WEBHOOK_PER_ADDRESS" also:"PUSH_PER_ADDRESS" default:"8" group:"Webhooks:" help:"Maximum number of concurrent webhook requests to one public IP address, except those allowed by --webhook-allow-nets and --webhook-allow-hosts (default ${default})."`
	PerOwner       int           `name:"webhook-per-owner" placeholder:"N" envvar:"HOLDFAST_WEBHOOK_PER_OWNER" also:"PUSH_PER_OWNER" default:"64" group:"Webhooks:" help:"Maximum number of concurrent webhook requests for one principal (default ${default})."`
}

// Limits of webhook settings.
const (
	maxWebhookLimit = 100_000
	shortestTimeout = 100 * time.Millisecond
	longestTimeout  = 2 * time.Minute
)

// webhookSettings are the validated settings of webhooks.
type webhookSettings struct {
	policy safehttp.Policy
	proxy  *url.URL
	keys   [][]byte
	notes  []string // about settings without effect
}

// resolve validates the settings and returns all problems as one error.
func (f *webhookFlags) resolve(a *app) (p webhookSettings, err error) {
	p, err = f.egress()
	var keysErr error
	p.keys, keysErr = f.keys(a)
	errs := []error{err, keysErr}
	for _, r := range []struct {
		name string
		n    int
	}{
		{"--webhook-per-task", f.PerTask},
		{"--webhook-per-minute", f.PerMinute},
		{"--webhook-in-flight", f.InFlight},
		{"--webhook-per-endpoint", f.PerEndpoint},
		{"--webhook-per-address", f.PerAddress},
		{"--webhook-per-owner", f.PerOwner},
	} {
		if r.n < 1 || r.n > maxWebhookLimit {
			errs = append(errs, fmt.Errorf("%s is %d, want 1 to %d", r.name, r.n, maxWebhookLimit))
		}
	}
	if d := f.WebhookTimeout; d < shortestTimeout || d > longestTimeout {
		errs = append(errs, fmt.Errorf("--webhook-timeout is %s, want %s to %s", d, shortestTimeout, longestTimeout))
	}
	for _, one := range []struct{ name, value string }{{"webhook-token", f.WebhookToken}, {"webhook-secret", f.WebhookSecret}} {
		if one.value != "" && f.WebhookURL == "" { // receivers use these variables too
			p.notes = append(p.notes, a.set.origins[one.name].String()+" has no effect: no --webhook-url is set")
		}
	}
	if f.WebhookURL != "" {
		if _, err := p.policy.CheckURL(f.WebhookURL); err != nil {
			if hint := allowFlag(ruleOf(err), f.WebhookURL); hint != "" {
				err = fmt.Errorf("%w; %s allows it", err, hint)
			}
			errs = append(errs, fmt.Errorf("--webhook-url: %w", err))
		}
	}
	if err := webhook.CheckToken(f.WebhookToken); err != nil {
		errs = append(errs, fmt.Errorf("--webhook-token %w", err))
	}
	if f.WebhookSecret != "" {
		if err := webhook.CheckSecret(f.WebhookSecret); err != nil {
			errs = append(errs, fmt.Errorf("--webhook-secret %w", err))
		}
	}
	return p, errors.Join(errs...)
}

// allowFlag returns the flag that allows a URL which a rule refused, "" if the rule is not about the
// host, port or address, or if no flag can allow it.
func allowFlag(rule, rawURL string) string {
	if rule != "host" && rule != "port" && rule != "address" {
		return ""
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := net.JoinHostPort(u.Hostname(), port)
	policy, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowHosts: []string{host}})
	if err != nil {
		return ""
	}
	if _, err := policy.CheckURL(rawURL); err != nil {
		return "" // such as the metadata of a cloud
	}
	return "--webhook-allow-hosts " + quoteShell(host)
}

// ruleOf returns the rule that refused a URL, "" if err is another error.
func ruleOf(err error) string {
	var refusal *safehttp.Refusal
	if errors.As(err, &refusal) {
		return refusal.Rule
	}
	return ""
}

// config returns the configuration of the library.
func (f *webhookFlags) config(p webhookSettings) holdfast.Webhooks {
	return holdfast.Webhooks{
		Off: !f.Webhooks, URL: f.WebhookURL, Token: f.WebhookToken, Secret: f.WebhookSecret,
		AllowNets: f.AllowNets, AllowHosts: f.AllowHosts, RequireHTTPS: f.RequireHTTPS, NAT64: f.NAT64, EgressProxy: f.EgressProxy,
		Keys: p.keys, PerTask: f.PerTask, PerMinute: f.PerMinute, InFlight: f.InFlight, PerEndpoint: f.PerEndpoint, PerAddress: f.PerAddress, PerOwner: f.PerOwner,
		Timeout: f.WebhookTimeout, UserAgent: userAgent(),
	}
}

// egress parses the policy and the proxy.
func (f *egressFlags) egress() (p webhookSettings, err error) {
	var errs []error
	p.policy = safehttp.Policy{
		AllowNets:    parsePolicy(&errs, "--webhook-allow-nets", safehttp.PolicyParams{AllowNets: f.AllowNets}).AllowNets,
		AllowHosts:   parsePolicy(&errs, "--webhook-allow-hosts", safehttp.PolicyParams{AllowHosts: f.AllowHosts}).AllowHosts,
		NAT64:        parsePolicy(&errs, "--webhook-nat64", safehttp.PolicyParams{NAT64: f.NAT64}).NAT64,
		RequireHTTPS: f.RequireHTTPS,
	}
	if f.EgressProxy != "" {
		// A parse error repeats the URL, which may contain a password.
		const usage = "--webhook-egress-proxy: want http://host:port or http://user:password@host:port"
		if p.proxy, err = url.Parse(f.EgressProxy); err != nil {
			errs = append(errs, errors.New(usage))
		} else if _, err := safehttp.New(safehttp.ClientConfig{EgressProxy: p.proxy}); err != nil {
			errs = append(errs, errors.New(usage))
		}
	}
	return p, errors.Join(errs...)
}

// parsePolicy parses the part of a policy that one flag sets. It adds errors to errs, with the name of
// the flag.
func parsePolicy(errs *[]error, flag string, params safehttp.PolicyParams) safehttp.Policy {
	policy, err := safehttp.ParsePolicy(params)
	if err != nil {
		for _, text := range strings.Split(err.Error(), "\n") {
			*errs = append(*errs, fmt.Errorf("%s: %s", flag, text))
		}
	}
	return policy
}

// keySize is the size of an encryption key, in bytes.
const keySize = 32

// keys returns the encryption keys of the flags or of the file. Errors contain the position of an
// invalid key, not the key.
func (f *webhookFlags) keys(a *app) (keys [][]byte, err error) {
	which, err := a.set.selectFlag("webhook-encryption-key", "webhook-encryption-keys-file")
	if err != nil {
		return nil, err
	}
	var errs []error
	add := func(place, text string) {
		if key := decodeKey(strings.TrimSpace(text)); key != nil {
			keys = append(keys, key)
		} else {
			errs = append(errs, fmt.Errorf("%s is not %d bytes in base64 or hex: create one with openssl rand -base64 %d", place, keySize, keySize))
		}
	}
	if which != "webhook-encryption-keys-file" {
		for i, text := range f.SecretKeys {
			add(fmt.Sprintf("--webhook-encryption-key: entry %d", i+1), text)
		}
		return keys, errors.Join(errs...)
	}
	text, err := os.ReadFile(f.SecretKeysFile)
	if err != nil {
		return nil, fmt.Errorf("--webhook-encryption-keys-file: %w", err)
	}
	for i, entry := range strings.Split(string(text), "\n") {
		if entry = stripComment(entry); entry != "" {
			add(fmt.Sprintf("--webhook-encryption-keys-file: line %d of %s", i+1, f.SecretKeysFile), entry)
		}
	}
	if len(keys) == 0 && len(errs) == 0 {
		// An empty file must not disable encryption.
		errs = append(errs, fmt.Errorf("--webhook-encryption-keys-file: %s contains no key", f.SecretKeysFile))
	}
	return keys, errors.Join(errs...)
}

// decodeKey decodes a key in base64 or hex; it returns nil if text is not valid.
func decodeKey(text string) []byte {
	if key, err := hex.DecodeString(text); err == nil && len(key) == keySize {
		return key
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(text); err == nil && len(key) == keySize {
			return key
		}
	}
	return nil
}

// client returns the HTTP client for webhook requests.
func (p *webhookSettings) client(timeout time.Duration) (*safehttp.Client, error) {
	return safehttp.New(safehttp.ClientConfig{Policy: p.policy, EgressProxy: p.proxy, Timeout: timeout})
}
