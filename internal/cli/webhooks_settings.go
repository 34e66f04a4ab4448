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
	"github.com/holdfast-dev/holdfast/push"
)

// egressFlags say where requests to webhooks may go.
type egressFlags struct {
	AllowNets    []string `name:"push-allow-nets" placeholder:"CIDR" envvar:"HOLDFAST_PUSH_ALLOW_NETS" also:"PUSH_ALLOW_NETS" group:"Webhooks:" help:"Networks that webhooks may be in although they are not public, such as 10.1.0.0/16; again for more. Default: none."`
	AllowHosts   []string `name:"push-allow-hosts" placeholder:"HOST:PORT" envvar:"HOLDFAST_PUSH_ALLOW_HOSTS" also:"PUSH_ALLOW_HOSTS" group:"Webhooks:" help:"Hosts, each with a port, that may be called whatever they resolve to, such as localhost:8888; again for more. Default: none."`
	RequireHTTPS bool     `name:"push-require-https" envvar:"HOLDFAST_PUSH_REQUIRE_HTTPS" also:"PUSH_REQUIRE_HTTPS" group:"Webhooks:" help:"Refuse webhooks that are not https."`
	EgressProxy  string   `name:"push-egress-proxy" secret:"" placeholder:"URL" envvar:"HOLDFAST_PUSH_EGRESS_PROXY" also:"PUSH_EGRESS_PROXY" group:"Webhooks:" help:"Call webhooks through this HTTP proxy, by CONNECT to the address that was checked. HTTP_PROXY and its kin are not looked at."`
	NAT64        []string `name:"push-nat64" placeholder:"PREFIX" envvar:"HOLDFAST_PUSH_NAT64" also:"PUSH_NAT64" group:"Webhooks:" help:"IPv6 prefixes of this site that embed IPv4 addresses (RFC 6052), which are then judged by these; again for more."`
}

// webhookFlags are the settings of webhooks.
type webhookFlags struct {
	Webhooks     bool   `negatable:"" default:"true" envvar:"HOLDFAST_WEBHOOKS" group:"Webhooks:" help:"Tell webhooks what becomes of tasks. On by default; with --no-webhooks they are refused and nothing is sent."`
	WebhookURL   string `name:"webhook-url" secret:"" placeholder:"URL" envvar:"HOLDFAST_WEBHOOK_URL" also:"WEBHOOK_URL" group:"Webhooks:" help:"The webhook of all tasks that have none of their own."`
	WebhookToken string `name:"webhook-token" secret:"all" placeholder:"TOKEN" envvar:"HOLDFAST_WEBHOOK_TOKEN" also:"WEBHOOK_TOKEN" group:"Webhooks:" help:"What that webhook is sent as bearer token. Better in the environment, where other users do not see it."`

	WebhookSecret string `name:"webhook-secret" secret:"all" placeholder:"SECRET" envvar:"HOLDFAST_WEBHOOK_SECRET" also:"WEBHOOK_SECRET" group:"Webhooks:" help:"What it is signed with, and verified: whsec_ and the base64 of 24 to 64 bytes. Default: it is not signed."`

	egressFlags

	SecretKeys     []string `name:"push-secret-key" secret:"all" placeholder:"KEY" envvar:"HOLDFAST_PUSH_SECRET_KEY" also:"HOLDFAST_PUSH_SECRET_KEYS,PUSH_SECRET_KEY,PUSH_SECRET_KEYS" group:"Webhooks:" help:"Encrypts the secrets of webhooks in the store: 32 bytes in base64 or hex. Again for more, the newest first: all are tried to read. Default: secrets are stored as they are."`
	SecretKeysFile string   `name:"push-secret-keys-file" placeholder:"FILE" envvar:"HOLDFAST_PUSH_SECRET_KEYS_FILE" also:"PUSH_SECRET_KEYS_FILE" group:"Webhooks:" help:"Such keys from a file, one a line, the newest first; # begins a comment."`

	PushTimeout time.Duration `name:"push-timeout" placeholder:"DURATION" envvar:"HOLDFAST_PUSH_TIMEOUT" also:"PUSH_TIMEOUT" default:"15s" group:"Webhooks:" help:"The longest that a webhook may take to answer. Default: ${default}."`
	PerTask     int           `name:"push-per-task" placeholder:"N" envvar:"HOLDFAST_PUSH_PER_TASK" also:"PUSH_PER_TASK" default:"10" group:"Webhooks:" help:"How many webhooks a task may have. Default: ${default}."`
	PerMinute   int           `name:"push-per-minute" placeholder:"N" envvar:"HOLDFAST_PUSH_PER_MINUTE" also:"PUSH_PER_MINUTE" default:"100" group:"Webhooks:" help:"How many webhooks a principal may set in a minute. Default: ${default}."`
	InFlight    int           `name:"push-in-flight" placeholder:"N" envvar:"HOLDFAST_PUSH_IN_FLIGHT" also:"PUSH_IN_FLIGHT" default:"512" group:"Webhooks:" help:"How many webhooks are called at once. Default: ${default}."`
	PerEndpoint int           `name:"push-per-endpoint" placeholder:"N" envvar:"HOLDFAST_PUSH_PER_ENDPOINT" also:"PUSH_PER_ENDPOINT" default:"8" group:"Webhooks:" help:"How many of one scheme, host and port. Default: ${default}."`
	PerAddress  int           `name:"push-per-address" placeholder:"N" envvar:"HOLDFAST_PUSH_PER_ADDRESS" also:"PUSH_PER_ADDRESS" default:"8" group:"Webhooks:" help:"How many of one public address, whatever its names; those of --push-allow-nets and --push-allow-hosts do not count. Default: ${default}."`
	PerOwner    int           `name:"push-per-owner" placeholder:"N" envvar:"HOLDFAST_PUSH_PER_OWNER" also:"PUSH_PER_OWNER" default:"64" group:"Webhooks:" help:"How many of one principal. Default: ${default}."`
}

// What the limits of webhooks and the timeout may be set to.
const (
	mostWebhooks    = 100_000
	shortestTimeout = 100 * time.Millisecond
	longestTimeout  = 2 * time.Minute
)

// pushes is what the settings of webhooks come to.
type pushes struct {
	policy safehttp.Policy
	proxy  *url.URL
	keys   [][]byte
	notes  []string // what the operator should know about the settings
}

// choose finds out what the settings mean, or all that is wrong with them.
func (f *webhookFlags) choose(a *app) (p pushes, err error) {
	p, err = f.egress()
	var keysErr error
	p.keys, keysErr = f.keys(a)
	errs := []error{err, keysErr}
	for _, r := range []struct {
		name string
		n    int
	}{
		{"--push-per-task", f.PerTask},
		{"--push-per-minute", f.PerMinute},
		{"--push-in-flight", f.InFlight},
		{"--push-per-endpoint", f.PerEndpoint},
		{"--push-per-address", f.PerAddress},
		{"--push-per-owner", f.PerOwner},
	} {
		if r.n < 1 || r.n > mostWebhooks {
			errs = append(errs, fmt.Errorf("%s is %d, want 1 to %d", r.name, r.n, mostWebhooks))
		}
	}
	if d := f.PushTimeout; d < shortestTimeout || d > longestTimeout {
		errs = append(errs, fmt.Errorf("--push-timeout is %s, want %s to %s", d, shortestTimeout, longestTimeout))
	}
	for _, one := range []struct{ name, value string }{{"webhook-token", f.WebhookToken}, {"webhook-secret", f.WebhookSecret}} {
		if one.value != "" && f.WebhookURL == "" { // receivers have these variables, too
			p.notes = append(p.notes, a.set.origins[one.name].String()+" has no effect: no --webhook-url is set")
		}
	}
	if f.WebhookURL != "" {
		if _, err := p.policy.CheckURL(f.WebhookURL); err != nil {
			if hint := allowHint(ruleOf(err), f.WebhookURL); hint != "" {
				err = fmt.Errorf("%w; %s allows it", err, hint)
			}
			errs = append(errs, fmt.Errorf("--webhook-url: %w", err))
		}
	}
	if err := push.CheckToken(f.WebhookToken); err != nil {
		errs = append(errs, fmt.Errorf("--webhook-token %w", err))
	}
	if f.WebhookSecret != "" {
		if err := push.CheckSecret(f.WebhookSecret); err != nil {
			errs = append(errs, fmt.Errorf("--webhook-secret %w", err))
		}
	}
	return p, errors.Join(errs...)
}

// allowHint is the flag that allows a URL which a rule has refused, "" if it was not for
// where it goes.
func allowHint(rule, rawURL string) string {
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
	return "--push-allow-hosts " + quoteShell(host)
}

// ruleOf is the rule that has refused a URL, "" if none has.
func ruleOf(err error) string {
	var refusal *safehttp.Refusal
	if errors.As(err, &refusal) {
		return refusal.Rule
	}
	return ""
}

// config is that of the library.
func (f *webhookFlags) config(p pushes) holdfast.Webhooks {
	return holdfast.Webhooks{
		Off: !f.Webhooks, URL: f.WebhookURL, Token: f.WebhookToken, Secret: f.WebhookSecret,
		AllowNets: f.AllowNets, AllowHosts: f.AllowHosts, RequireHTTPS: f.RequireHTTPS, NAT64: f.NAT64, EgressProxy: f.EgressProxy,
		Keys: p.keys, PerTask: f.PerTask, PerMinute: f.PerMinute, InFlight: f.InFlight, PerEndpoint: f.PerEndpoint, PerAddress: f.PerAddress, PerOwner: f.PerOwner,
		Timeout: f.PushTimeout, Agent: userAgent(),
	}
}

// egress reads the policy.
func (f *egressFlags) egress() (p pushes, err error) {
	var errs []error
	p.policy = safehttp.Policy{
		AllowNets:    parseAllowed(&errs, "--push-allow-nets", safehttp.PolicyParams{AllowNets: f.AllowNets}).AllowNets,
		AllowHosts:   parseAllowed(&errs, "--push-allow-hosts", safehttp.PolicyParams{AllowHosts: f.AllowHosts}).AllowHosts,
		NAT64:        parseAllowed(&errs, "--push-nat64", safehttp.PolicyParams{NAT64: f.NAT64}).NAT64,
		RequireHTTPS: f.RequireHTTPS,
	}
	if f.EgressProxy != "" {
		// The text of a parse error repeats the URL, which may carry a password.
		const form = "--push-egress-proxy: want http://host:port, with user:password@ if need be"
		if p.proxy, err = url.Parse(f.EgressProxy); err != nil {
			errs = append(errs, errors.New(form))
		} else if _, err := safehttp.New(safehttp.ClientConfig{EgressProxy: p.proxy}); err != nil {
			errs = append(errs, errors.New(form))
		}
	}
	return p, errors.Join(errs...)
}

// parseAllowed reads the part of a policy that one flag gives, so that errors can name it.
func parseAllowed(errs *[]error, flag string, params safehttp.PolicyParams) safehttp.Policy {
	policy, err := safehttp.ParsePolicy(params)
	if err != nil {
		for _, text := range strings.Split(err.Error(), "\n") {
			*errs = append(*errs, fmt.Errorf("%s: %s", flag, text))
		}
	}
	return policy
}

// keySize is the size of a key that encrypts secrets.
const keySize = 32

// keys are those of the flags or of the file. Errors name the place of a bad one and
// never the key.
func (f *webhookFlags) keys(a *app) (keys [][]byte, err error) {
	which, err := a.set.stronger("push-secret-key", "push-secret-keys-file")
	if err != nil {
		return nil, err
	}
	var errs []error
	add := func(place, text string) {
		if key := decodeKey(strings.TrimSpace(text)); key != nil {
			keys = append(keys, key)
		} else {
			errs = append(errs, fmt.Errorf("%s is not %d bytes in base64 or hex: make one with openssl rand -base64 %d", place, keySize, keySize))
		}
	}
	if which != "push-secret-keys-file" {
		for i, text := range f.SecretKeys {
			add(fmt.Sprintf("--push-secret-key: entry %d", i+1), text)
		}
		return keys, errors.Join(errs...)
	}
	text, err := os.ReadFile(f.SecretKeysFile)
	if err != nil {
		return nil, fmt.Errorf("--push-secret-keys-file: %w", err)
	}
	for i, entry := range strings.Split(string(text), "\n") {
		if entry = withoutComment(entry); entry != "" {
			add(fmt.Sprintf("--push-secret-keys-file: line %d of %s", i+1, f.SecretKeysFile), entry)
		}
	}
	if len(keys) == 0 && len(errs) == 0 {
		// An empty file must not have secrets stored as they are.
		errs = append(errs, fmt.Errorf("--push-secret-keys-file: %s has no key in it", f.SecretKeysFile))
	}
	return keys, errors.Join(errs...)
}

// decodeKey returns nil for what is no key.
func decodeKey(text string) []byte {
	if key, err := hex.DecodeString(text); err == nil && len(key) == keySize {
		return key
	}
	for _, form := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := form.DecodeString(text); err == nil && len(key) == keySize {
			return key
		}
	}
	return nil
}

// sender is what makes the requests.
func (p *pushes) sender(timeout time.Duration) (*safehttp.Client, error) {
	return safehttp.New(safehttp.ClientConfig{Policy: p.policy, EgressProxy: p.proxy, Timeout: timeout})
}
