package push

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
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Mask stands for a secret that is not told. Saved again, it keeps what was there.
const Mask = "********"

// maxSecret is the longest token or credentials, in bytes.
const maxSecret = 4 << 10

// wish is a webhook as its user wants it, found to be right in itself.
type wish struct {
	field    string // where the user wrote it
	config   a2a.PushNotificationConfig
	endpoint string
	id       string // for a new one without an id
}

// wish checks what a user wants, and whether it is taken now.
func (s *Service) wish(ctx context.Context, field, owner string, c *a2a.PushNotificationConfig) (*wish, error) {
	w, err := s.formed(field, c)
	if err != nil {
		return nil, err
	}
	return w, s.admit(ctx, owner, w)
}

// formed checks what a user wants by itself.
func (s *Service) formed(field string, c *a2a.PushNotificationConfig) (*wish, error) {
	w := &wish{field: field, config: *c, id: s.cfg.NewID()}
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
	return w, checkAuthentication(field+".authentication", c)
}

// admit counts what a user wants, and asks the sender for the URL. What comes of that is
// not the same each time.
func (s *Service) admit(ctx context.Context, owner string, w *wish) error {
	if !s.saved.take(owner, s.now()) {
		return a2a.Errorf(a2a.CodeExhausted, "%d webhooks were saved within a minute, no more are taken for now; try again later", s.cfg.PerMinute)
	}
	err := s.cfg.Sender.Check(ctx, w.config.URL)
	if err == nil {
		w.endpoint = endpointOf(w.config.URL)
		return nil
	}
	var refusal *safehttp.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	if refusal.Detail != "" {
		s.log.Info("webhook refused", "owner", owner, "rule", refusal.Rule, "detail", refusal.Detail)
	}
	told := a2a.Invalid(w.field+".url", "%s", refusal.Text)
	told.Data["rule"] = refusal.Rule
	return told
}

// checkSecret refuses what cannot be sent in a header as it is.
func checkSecret(field, secret string) error {
	if err := secretFault(secret); err != nil {
		return a2a.Invalid(field, "%s", err)
	}
	return nil
}

func secretFault(secret string) error {
	switch {
	case len(secret) > maxSecret:
		return fmt.Errorf("is longer than %d bytes", maxSecret)
	case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("must consist of printable ASCII")
	case strings.TrimSpace(secret) != secret:
		return errors.New("must not begin or end with a blank")
	}
	return nil
}

// reserved are headers that a webhook's key cannot travel in.
var reserved = []string{
	"Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-A2a-Notification-Token", "X-Delivery-Attempt",
}

// checkAuthentication refuses ways to authenticate that are not offered, or for which
// there is nothing to authenticate with.
func checkAuthentication(field string, c *a2a.PushNotificationConfig) error {
	needToken := func(what string) error {
		if c.Token == "" {
			return a2a.Invalid(strings.TrimSuffix(field, "authentication")+"token", "is required: it is what is sent for %s", what)
		}
		return nil
	}
	switch auth := c.Authentication.(type) {
	case nil:
		return nil
	case a2a.PushNotificationAuthenticationInfo:
		if !isToken(auth.Schemes[0]) {
			return a2a.Invalid(field+".schemes[0]", "is %s, which is no scheme of HTTP", a2a.Quote(auth.Schemes[0]))
		}
		if auth.Credentials == "" && !strings.EqualFold(auth.Schemes[0], "bearer") {
			return a2a.Invalid(field+".credentials", "is required for the scheme %s", a2a.Quote(auth.Schemes[0]))
		}
		return checkSecret(field+".credentials", auth.Credentials)
	case a2a.HTTPAuthSecurityScheme:
		if !isToken(auth.Scheme) {
			return a2a.Invalid(field+".scheme", "is %s, which is no scheme of HTTP", a2a.Quote(auth.Scheme))
		}
		return needToken("the scheme " + auth.Scheme)
	case a2a.APIKeySecurityScheme:
		name := http.CanonicalHeaderKey(auth.Name)
		switch {
		case auth.In != a2a.InHeader:
			return a2a.Invalid(field+".in", "is %s; keys are sent in a header only", auth.In)
		case !isToken(auth.Name):
			return a2a.Invalid(field+".name", "is %s, which is no name of a header", a2a.Quote(auth.Name))
		case slices.Contains(reserved, name), strings.HasPrefix(name, "Webhook-"), strings.HasPrefix(name, "Proxy-"):
			return a2a.Invalid(field+".name", "is %s, a header that is used for something else", a2a.Quote(auth.Name))
		}
		return needToken("the key " + auth.Name)
	case a2a.SecurityScheme:
		return a2a.Invalid(field+".type", "is %s, which webhooks are not called with: http, apiKey in a header, or schemes and credentials are", auth.SchemeType())
	}
	return a2a.Invalid(field, "is of an unknown kind")
}

// isToken reports whether s can be a scheme or the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// endpointOf returns where a URL that has been checked goes: scheme, host and port.
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

// beside returns the id and the settings that a wish comes to beside a task's webhooks.
func (s *Service) beside(w *wish, all *webhooks) (id string, set settings, err error) {
	id = w.config.ID
	if id == "" {
		same := func(o webhook) bool { return o.set.URL == w.config.URL }
		if i := slices.IndexFunc(all.own, same); i >= 0 {
			id = all.own[i].Config.ID
		} else {
			id = w.id
		}
	}
	old := new(settings)
	if found := all.byID(id); found != nil {
		if field := w.masked(); field != "" && found.unread {
			return "", set, a2a.Invalid(field, "is %s, which stands for what was there before, and that cannot be decrypted with the keys of this agent", Mask)
		}
		old = &found.set
	} else if len(all.own) >= s.cfg.PerTask {
		return "", set, a2a.Errorf(a2a.CodeExhausted, "the task has %d webhooks, no more are taken", len(all.own))
	}
	set, err = w.over(old, store.Time(s.cfg.clock()))
	set.Saved = store.Time(s.now())
	return id, set, err
}

// masked returns the field of a secret that is to stay what it was, "" if none is.
func (w *wish) masked() string {
	auth, _ := w.config.Authentication.(a2a.PushNotificationAuthenticationInfo)
	switch {
	case w.config.Token == Mask:
		return w.field + ".token"
	case auth.Credentials == Mask:
		return w.field + ".authentication.credentials"
	}
	return ""
}

// over returns the settings for what is wished in place of old ones.
func (w *wish) over(old *settings, now time.Time) (settings, error) {
	c := w.config
	if old.Secrets == nil {
		old.Secrets = new(secrets)
	}
	set := settings{URL: c.URL, Format: c.PayloadFormat, Signatures: c.Signatures, Told: old.Told, Secrets: new(secrets)}
	moved := endpointOf(old.URL) != endpointOf(c.URL)
	var err error
	if set.Secrets.Token, err = unmask(w.field+".token", c.Token, old.Secrets.Token, moved); err != nil {
		return set, err
	}
	set.Authentication = c.Authentication
	if auth, ok := c.Authentication.(a2a.PushNotificationAuthenticationInfo); ok {
		if set.Secrets.Credentials, err = unmask(w.field+".authentication.credentials", auth.Credentials, old.Secrets.Credentials, moved); err != nil {
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
			return set, a2a.Invalid(w.field+".rotateSecret", "is refused: a webhook signs with at most %d keys, and the oldest is good until %s", maxKeys, set.Secrets.Keys[n-1].Until.Format(time.RFC3339))
		}
		set.rotate(now)
	}
	return set, nil
}

// maxKeys is how many keys of a webhook are kept.
const maxKeys = 4

// rotate makes a new key. The older ones sign for some time longer.
func (set *settings) rotate(now time.Time) {
	keys := set.Secrets.Keys
	for i := range keys {
		if keys[i].Until.IsZero() {
			keys[i].Until = now.Add(overlap)
		}
	}
	set.Secrets.Keys, set.Told = append([]signingKey{newSigningKey(now)}, keys...), false
}

// toldAgain is for how long the secret of a new key is told again, since an answer may get
// lost.
const toldAgain = 10 * time.Minute

// tell returns the secret of signatures v1 if its owner is to be told it now, and notes
// that this was done.
func (set *settings) tell(now time.Time) string {
	if set.Told && now.Sub(set.Secrets.Keys[0].Made).Abs() >= toldAgain || len(set.Signatures) > 0 && !slices.Contains(set.Signatures, signatureHMAC) {
		return ""
	}
	set.Told = true
	return set.Secrets.Keys[0].told()
}

// unmask returns what a secret is to be. One that is not told does not move to another
// endpoint, which it would be told to.
func unmask(field, wanted, old string, moved bool) (string, error) {
	switch {
	case wanted != Mask:
		return wanted, nil
	case old != "" && moved:
		return "", a2a.Invalid(field, "is %s, which stands for what was there before: it must be given again when the webhook moves to another scheme, host or port", Mask)
	case old == "":
		return "", a2a.Invalid(field, "is %s, which stands for what was there before, and nothing was", Mask)
	}
	return old, nil
}

// equal reports whether settings are the same, whenever they were saved.
func (set settings) equal(other settings) bool {
	set.Saved, other.Saved = time.Time{}, time.Time{}
	a, err := wire.Marshal(&set)
	b, otherErr := wire.Marshal(&other)
	return err == nil && otherErr == nil && bytes.Equal(a, b)
}
