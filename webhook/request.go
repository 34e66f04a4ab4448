package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	sign "github.com/holdfast-dev/holdfast/internal/signature"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Mask replaces secrets in responses. If it is sent back, the stored secret is kept.
const Mask = "********"

// maxSecret is the maximum length of a token or credentials, in bytes.
const maxSecret = 4 << 10

// saveRequest is a valid request to save a webhook.
type saveRequest struct {
	field    string // prefix of the fields in errors
	config   a2a.PushNotificationConfig
	endpoint string
	id       string // for a new webhook without an id
}

// newSaveRequest validates a webhook and checks the quota and the URL.
func (reg *registrar) newSaveRequest(ctx context.Context, field, owner string, c *a2a.PushNotificationConfig) (*saveRequest, error) {
	r, err := reg.validate(field, c)
	if err != nil {
		return nil, err
	}
	return r, reg.checkQuotaAndURL(ctx, owner, r)
}

// validate checks those properties of a webhook that depend on neither the store nor the
// network nor the quota.
func (reg *registrar) validate(field string, c *a2a.PushNotificationConfig) (*saveRequest, error) {
	r := &saveRequest{field: field, config: *c, id: reg.cfg.NewID()}
	if c.PayloadFormat == "" && reg.cfg.Format != a2a.PayloadEvent {
		r.config.PayloadFormat = reg.cfg.Format
	}
	if c.ID != "" {
		if err := a2a.CheckID(field+".id", c.ID); err != nil {
			return nil, err
		}
		if c.ID == GlobalID {
			return nil, a2a.Invalid(field+".id", "is %q, which is reserved", GlobalID)
		}
	}
	if err := checkSecret(field+".token", c.Token); err != nil {
		return nil, err
	}
	return r, checkAuthentication(field+".authentication", c)
}

// checkQuotaAndURL checks a request against the quota of its owner and its URL against the
// policy of the sender. The result may differ between calls.
func (reg *registrar) checkQuotaAndURL(ctx context.Context, owner string, r *saveRequest) error {
	if !reg.saveQuota.allow(owner, reg.now()) {
		return a2a.Errorf(a2a.CodeExhausted, "limit of %d saved webhooks per minute exceeded; retry later", reg.cfg.Limits.PerMinute)
	}
	err := reg.cfg.Sender.Check(ctx, r.config.URL)
	if err == nil {
		r.endpoint = endpointOf(r.config.URL)
		return nil
	}
	var refusal *safehttp.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	if refusal.Detail != "" {
		reg.log.Info("webhook URL refused", "owner", owner, "rule", refusal.Rule, "detail", refusal.Detail)
	}
	invalid := a2a.Invalid(r.field+".url", "%s", refusal.Text)
	invalid.Data["rule"] = refusal.Rule
	return invalid
}

// checkSecret returns an error if a secret cannot be sent in a header.
func checkSecret(field, secret string) error {
	if err := validateSecret(secret); err != nil {
		return a2a.Invalid(field, "%s", err)
	}
	return nil
}

func validateSecret(secret string) error {
	switch {
	case len(secret) > maxSecret:
		return fmt.Errorf("is longer than %d bytes", maxSecret)
	case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("must consist of printable ASCII")
	case strings.TrimSpace(secret) != secret:
		return errors.New("must not start or end with a space")
	}
	return nil
}

// reservedHeaders are headers that an API key must not use.
var reservedHeaders = []string{
	"A2a-Notification-Token", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-A2a-Notification-Token", "X-Delivery-Attempt",
}

// checkAuthentication returns an error if an authentication method is not supported, or its
// token or credentials are missing.
func checkAuthentication(field string, c *a2a.PushNotificationConfig) error {
	needToken := func(what string) error {
		if c.Token == "" {
			return a2a.Invalid(strings.TrimSuffix(field, "authentication")+"token", "is required for %s", what)
		}
		return nil
	}
	switch auth := c.Authentication.(type) {
	case nil:
		return nil
	case a2a.PushNotificationAuthenticationInfo:
		if !isToken(auth.Schemes[0]) {
			return a2a.Invalid(field+".schemes[0]", "is %s, want the name of an HTTP authentication scheme", a2a.Quote(auth.Schemes[0]))
		}
		if auth.Credentials == "" && !strings.EqualFold(auth.Schemes[0], "bearer") {
			return a2a.Invalid(field+".credentials", "is required for the scheme %s", a2a.Quote(auth.Schemes[0]))
		}
		return checkSecret(field+".credentials", auth.Credentials)
	case a2a.HTTPAuthSecurityScheme:
		if !isToken(auth.Scheme) {
			return a2a.Invalid(field+".scheme", "is %s, want the name of an HTTP authentication scheme", a2a.Quote(auth.Scheme))
		}
		return needToken("the scheme " + auth.Scheme)
	case a2a.APIKeySecurityScheme:
		name := http.CanonicalHeaderKey(auth.Name)
		switch {
		case auth.In != a2a.InHeader:
			return a2a.Invalid(field+".in", "is %s, want header", auth.In)
		case !isToken(auth.Name):
			return a2a.Invalid(field+".name", "is %s, want a valid header name", a2a.Quote(auth.Name))
		case slices.Contains(reservedHeaders, name), strings.HasPrefix(name, "Webhook-"), strings.HasPrefix(name, "Proxy-"):
			return a2a.Invalid(field+".name", "is %s, which is a reserved header", a2a.Quote(auth.Name))
		}
		return needToken("the key " + auth.Name)
	case a2a.SecurityScheme:
		return a2a.Invalid(field+".type", "is %s, want http, apiKey, or schemes with credentials", auth.SchemeType())
	}
	return a2a.Invalid(field, "is of an unknown type")
}

// isToken reports whether s is a token, the form of scheme and header names (RFC 9110,
// section 5.6.2).
func isToken(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// endpointOf returns the scheme, host and port of a valid URL.
func endpointOf(checked string) string {
	u, err := url.Parse(checked)
	if err != nil {
		return checked
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") + ":" + port
}

// resolve returns the id and the settings to save for a request, given a task's webhooks.
func (reg *registrar) resolve(r *saveRequest, all *webhooks) (id string, set settings, err error) {
	id = r.config.ID
	if id == "" {
		same := func(o webhook) bool { return o.settings.URL == r.config.URL }
		if i := slices.IndexFunc(all.owned, same); i >= 0 {
			id = all.owned[i].Webhook.ID
		} else {
			id = r.id
		}
	}
	old := new(settings)
	if found := all.byID(id); found != nil {
		if field := r.maskedField(); field != "" && found.undecryptable {
			return "", set, a2a.Invalid(field, "is %s, but the stored value cannot be decrypted with the keys of this agent", Mask)
		}
		old = &found.settings
	} else if len(all.owned) >= reg.cfg.Limits.PerTask {
		return "", set, a2a.Errorf(a2a.CodeExhausted, "the task has %d webhooks, which is the limit", len(all.owned))
	}
	set, err = r.merge(old, store.Time(reg.cfg.clock()))
	set.Saved = store.Time(reg.now())
	return id, set, err
}

// maskedField returns the first field with the value Mask, or "".
func (r *saveRequest) maskedField() string {
	auth, _ := r.config.Authentication.(a2a.PushNotificationAuthenticationInfo)
	switch {
	case r.config.Token == Mask:
		return r.field + ".token"
	case auth.Credentials == Mask:
		return r.field + ".authentication.credentials"
	}
	return ""
}

// merge returns the settings that replace old. It keeps the stored value of masked secrets,
// and the signing keys that have not expired.
func (r *saveRequest) merge(old *settings, now time.Time) (settings, error) {
	c := r.config
	if old.Secrets == nil {
		old.Secrets = new(secrets)
	}
	set := settings{URL: c.URL, Format: c.PayloadFormat, Signatures: c.Signatures, SecretReturned: old.SecretReturned, Secrets: new(secrets)}
	moved := endpointOf(old.URL) != endpointOf(c.URL)
	var err error
	if set.Secrets.Token, err = unmask(r.field+".token", c.Token, old.Secrets.Token, moved); err != nil {
		return set, err
	}
	set.Authentication = c.Authentication
	if auth, ok := c.Authentication.(a2a.PushNotificationAuthenticationInfo); ok {
		if set.Secrets.Credentials, err = unmask(r.field+".authentication.credentials", auth.Credentials, old.Secrets.Credentials, moved); err != nil {
			return set, err
		}
		auth.Credentials = ""
		set.Authentication = auth
	}
	for _, k := range old.Secrets.Keys {
		if k.Until.IsZero() || now.Before(k.Until) {
			set.Secrets.Keys = append(set.Secrets.Keys, k)
		}
	}
	if len(set.Secrets.Keys) == 0 || c.RotateSecret {
		if n := len(set.Secrets.Keys); n >= maxKeys {
			return set, a2a.Invalid(r.field+".rotateSecret", "is rejected: the webhook has %d signing keys, which is the limit; the oldest is valid until %s", maxKeys, set.Secrets.Keys[n-1].Until.Format(time.RFC3339))
		}
		set.rotate(now)
	}
	return set, nil
}

// maxKeys is the maximum number of signing keys of a webhook.
const maxKeys = 4

// rotate adds a new key. Older keys continue to sign for rotationOverlap.
func (set *settings) rotate(now time.Time) {
	keys := set.Secrets.Keys
	for i := range keys {
		if keys[i].Until.IsZero() {
			keys[i].Until = now.Add(rotationOverlap)
		}
	}
	set.Secrets.Keys, set.SecretReturned = append([]signingKey{newSigningKey(now)}, keys...), false
}

// secretResendWindow is how long responses include the secret of a new key, since a response
// may be lost.
const secretResendWindow = 10 * time.Minute

// revealSecret returns the secret of v1 signatures and marks it as returned. It returns "" if
// the secret was returned before and is older than secretResendWindow, or if v1 is not used.
func (set *settings) revealSecret(now time.Time) string {
	if set.SecretReturned && now.Sub(set.Secrets.Keys[0].Made).Abs() >= secretResendWindow || len(set.Signatures) > 0 && !slices.Contains(set.Signatures, sign.HMAC) {
		return ""
	}
	set.SecretReturned = true
	return set.Secrets.Keys[0].encodedSecret()
}

// unmask returns the new value of a secret. It rejects Mask for another endpoint, since that
// would send the stored secret there.
func unmask(field, wanted, old string, moved bool) (string, error) {
	switch {
	case wanted != Mask:
		return wanted, nil
	case old != "" && moved:
		return "", a2a.Invalid(field, "is %s, want the secret itself, because scheme, host or port of the URL change", Mask)
	case old == "":
		return "", a2a.Invalid(field, "is %s, but no value is stored", Mask)
	}
	return old, nil
}

// equal reports whether settings are the same, regardless of Saved.
func (set settings) equal(other settings) bool {
	set.Saved, other.Saved = time.Time{}, time.Time{}
	a, err := wire.Marshal(&set)
	b, otherErr := wire.Marshal(&other)
	return err == nil && otherErr == nil && bytes.Equal(a, b)
}
