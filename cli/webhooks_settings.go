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
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// egressFlags configure which webhook URLs are allowed and how they are reached.
type egressFlags struct {
	AllowNets    []string `field:"Webhooks.AllowNets" name:"webhook-allow-nets" placeholder:"CIDR" envvar:"" also:"PUSH_ALLOW_NETS" group:"Webhooks:" help:"Allow webhooks in this non-public network, such as 10.1.0.0/16. Repeatable (default none)."`
	AllowHosts   []string `field:"Webhooks.AllowHosts" name:"webhook-allow-hosts" placeholder:"HOST:PORT" envvar:"" also:"PUSH_ALLOW_HOSTS" group:"Webhooks:" help:"Allow webhooks to this HOST:PORT whatever address it resolves to, such as localhost:8888. Repeatable (default none)."`
	RequireHTTPS bool     `field:"Webhooks.RequireHTTPS" name:"webhook-require-https" envvar:"" also:"PUSH_REQUIRE_HTTPS" group:"Webhooks:" help:"Reject webhooks that are not https."`
	EgressProxy  string   `field:"Webhooks.EgressProxy" name:"webhook-egress-proxy" secret:"" placeholder:"URL" envvar:"" also:"PUSH_EGRESS_PROXY" group:"Webhooks:" help:"Send webhook requests through this HTTP proxy, with CONNECT to the checked address. HTTP_PROXY and similar variables are ignored."`
	NAT64        []string `field:"Webhooks.NAT64" name:"webhook-nat64" placeholder:"PREFIX" envvar:"" also:"PUSH_NAT64" group:"Webhooks:" help:"IPv6 prefix of this site that embeds IPv4 addresses (RFC 6052); the embedded address is checked. Repeatable (default none)."`
}

// webhookFlags has the settings of webhooks.
type webhookFlags struct {
	Webhooks     bool   `field:"!Webhooks.Off" negatable:"" default:"true" envvar:"" group:"Webhooks:" help:"Accept and deliver webhooks (default on). With --no-webhooks, webhooks are rejected and nothing is sent."`
	WebhookURL   string `field:"Webhooks.Global.URL" secret:"" placeholder:"URL" envvar:"" also:"WEBHOOK_URL" group:"Webhooks:" help:"Global webhook: receives the events of every task that has no webhook of its own."`
	WebhookToken string `field:"Webhooks.Global.Token" secret:"all" placeholder:"TOKEN" envvar:"" also:"WEBHOOK_TOKEN" group:"Webhooks:" help:"Token for --webhook-url, sent in X-A2A-Notification-Token, with format event also as bearer token. Prefer the variable: other users can see command lines."`

	WebhookSecret string `field:"Webhooks.Global.Secret" secret:"all" placeholder:"SECRET" envvar:"" also:"WEBHOOK_SECRET" group:"Webhooks:" help:"Secret that signs requests to --webhook-url: whsec_ and the base64 of 24 to 64 bytes (default no signature)."`

	WebhookFormat a2a.PayloadFormat `field:"Webhooks.Format" placeholder:"FORMAT" envvar:"" default:"event" enum:"event,task,stream-response" group:"Webhooks:" help:"Format of requests to webhooks that name none, and to --webhook-url: event, task (as in A2A 0.3) or stream-response (as in A2A 1.0). Webhooks registered by A2A 1.0 get stream-response."`

	egressFlags

	SecretKeys     []string `name:"webhook-encryption-key" secret:"all" placeholder:"KEY" envvar:"" also:"HOLDFAST_WEBHOOK_ENCRYPTION_KEYS,PUSH_SECRET_KEY,PUSH_SECRET_KEYS" group:"Webhooks:" help:"Key that encrypts webhook secrets in the store: 32 bytes in base64 or hex. Repeatable, newest first; older keys only decrypt (default no encryption)."`
	SecretKeysFile string   `name:"webhook-encryption-keys-file" contains:"Webhooks.Keys" placeholder:"FILE" envvar:"" also:"PUSH_SECRET_KEYS_FILE" group:"Webhooks:" help:"File with encryption keys, one per line, newest first; # starts a comment."`

	WebhookTimeout time.Duration `field:"Webhooks.Timeout" min:"100ms" max:"2m" envvar:"" also:"PUSH_TIMEOUT" group:"Webhooks:" help:"Timeout of a webhook request."`
	PerTask        int           `field:"Webhooks.Limits.PerTask" name:"webhook-per-task" envvar:"" also:"PUSH_PER_TASK" group:"Webhooks:" help:"Maximum number of webhooks of a task."`
	PerMinute      int           `field:"Webhooks.Limits.PerMinute" name:"webhook-per-minute" envvar:"" also:"PUSH_PER_MINUTE" group:"Webhooks:" help:"Maximum number of webhooks that a principal may register per minute."`
	InFlight       int           `field:"Webhooks.Limits.InFlight" name:"webhook-in-flight" envvar:"" also:"PUSH_IN_FLIGHT" group:"Webhooks:" help:"Maximum number of concurrent webhook requests."`
	PerEndpoint    int           `field:"Webhooks.Limits.PerEndpoint" name:"webhook-per-endpoint" envvar:"" also:"PUSH_PER_ENDPOINT" group:"Webhooks:" help:"Maximum number of concurrent webhook requests to one scheme, host and port."`
	PerAddress     int           `field:"Webhooks.Limits.PerAddress" name:"webhook-per-address" envvar:"" also:"PUSH_PER_ADDRESS" group:"Webhooks:" help:"Maximum number of concurrent webhook requests to one public IP address. Addresses that --webhook-allow-nets or --webhook-allow-hosts allows have no such limit."`
	PerOwner       int           `field:"Webhooks.Limits.PerOwner" name:"webhook-per-owner" envvar:"" also:"PUSH_PER_OWNER" group:"Webhooks:" help:"Maximum number of concurrent webhook requests for one principal."`
}

// fileFlags has the settings of files that messages reference by URI. The settings RequireHTTPS,
// EgressProxy and NAT64 of egressFlags apply to files too.
type fileFlags struct {
	FetchFiles     bool          `field:"!Fetch.Off" negatable:"" default:"true" envvar:"" group:"Files by URI:" help:"Fetch files that messages reference by URI, for the summarizer (default on). With --no-fetch-files, messages with such files are rejected. Programs of --exec receive the URI."`
	FileAllowNets  []string      `field:"Fetch.AllowNets" placeholder:"CIDR" envvar:"" group:"Files by URI:" help:"Allow files in this non-public network, such as 10.1.0.0/16. Every client that may send messages can then read files there. Repeatable (default none)."`
	FileAllowHosts []string      `field:"Fetch.AllowHosts" placeholder:"HOST:PORT" envvar:"" group:"Files by URI:" help:"Allow files from this HOST:PORT whatever address it resolves to. Repeatable (default none)."`
	FileMax        size          `field:"Fetch.MaxBytes" envvar:"" group:"Files by URI:" help:"Maximum size of a fetched file."`
	FileAtOnce     int           `field:"Fetch.Concurrency" min:"2" envvar:"" group:"Files by URI:" help:"Maximum number of files that are fetched concurrently, 2 or more; with tokens, half of it for one owner. Further files wait."`
	FileTimeout    time.Duration `field:"Fetch.Timeout" min:"100ms" max:"10m" envvar:"" group:"Files by URI:" help:"Timeout for fetching a file."`
	FileInline     size          `field:"Files.InlineBytes" envvar:"" group:"Large files:" help:"Maximum size of a file that clients and webhooks get within a response; larger files are links. Files up to 64KiB are always within the response."`
	FileLinkTTL    time.Duration `field:"Files.LinkTTL" name:"file-link-ttl" envvar:"" group:"Large files:" help:"Time that a link to a file is valid."`
}

// notes returns notes about settings of webhooks without effect.
func (f *webhookFlags) notes(a *app) (notes []string) {
	for _, one := range []struct{ name, value string }{{"webhook-token", f.WebhookToken}, {"webhook-secret", f.WebhookSecret}} {
		if one.value != "" && f.WebhookURL == "" { // receivers use these variables too
			notes = append(notes, a.set.origins[one.name].String()+" has no effect: no --webhook-url is set")
		}
	}
	return notes
}

// allowHint adds the flag that allows the URL of the global webhook to an error that rejects it.
func (f *webhookFlags) allowHint(err error) error {
	var all *holdfast.ConfigError
	if errors.As(err, &all) {
		for i, p := range all.Problems {
			if hint := allowFlag(ruleOf(p.Err), f.WebhookURL); hint != "" && p.Field == "Webhooks.Global.URL" {
				all.Problems[i].Err = fmt.Errorf("%w; %s allows it", p.Err, hint)
			}
		}
	}
	return err
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

// client returns the HTTP client for webhook requests and its policy. The flags must be valid.
func (f *egressFlags) client(timeout time.Duration) (*safehttp.Client, safehttp.Policy, error) {
	policy, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowNets: f.AllowNets, AllowHosts: f.AllowHosts, NAT64: f.NAT64, RequireHTTPS: f.RequireHTTPS})
	if err != nil {
		return nil, policy, err
	}
	proxy, err := safehttp.ParseProxy(f.EgressProxy)
	if err != nil {
		return nil, policy, err
	}
	client, err := safehttp.New(safehttp.ClientConfig{Policy: policy, EgressProxy: proxy, Timeout: timeout})
	return client, policy, err
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
