package webhook

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// common is the configuration of a service and the values derived from it. All parts of the
// service share it.
type common struct {
	cfg          Config
	log          *slog.Logger
	clock        *clock
	now          func() time.Time // of clock
	seal         sealer
	unencrypted  func() // logs once that secrets are stored unencrypted
	globalSecret []byte
	memory       memoryMeter
}

// newCommon applies the defaults of cfg. Its error lists all problems of cfg.
func newCommon(cfg Config) (*common, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &common{cfg: cfg, log: cfg.Logger, clock: newClock(cfg.clock), memory: memoryMeter{budget: cfg.Memory}}
	c.now = c.clock.now
	c.unencrypted = sync.OnceFunc(func() {
		c.log.Warn("tokens and signing secrets of webhooks are stored unencrypted", config.Settings("Webhooks.Keys"))
	})
	if err := c.readKeys(); err != nil {
		return nil, fmt.Errorf("webhook config: %w", err)
	}
	return c, nil
}

// readKeys decodes the keys and the secret of the global webhook, which withDefaults has checked.
func (c *common) readKeys() (err error) {
	if c.seal, err = newSealer(c.cfg.Keys); err != nil {
		return err
	}
	if secret := c.cfg.Global.Secret; secret != "" {
		c.globalSecret, err = decodeSecret(secret)
	}
	return err
}

// newSender returns the client that applies the settings. It logs a warning if addresses that are not
// public are allowed.
func (c *common) newSender() (Sender, error) {
	policy := c.cfg.policy(new(config.Error)) // the settings are valid
	proxy, err := safehttp.ParseProxy(c.cfg.EgressProxy)
	if err != nil {
		return nil, err
	}
	if len(policy.AllowNets) > 0 || len(policy.AllowHosts) > 0 {
		c.log.Warn("webhooks may go to addresses that are not public: everyone who can send a message can cause requests to them",
			"nets", fmt.Sprint(policy.AllowNets), "hosts", fmt.Sprint(policy.AllowHosts))
	}
	return safehttp.New(safehttp.ClientConfig{Policy: policy, EgressProxy: proxy, Timeout: c.cfg.Timeout, MaxPerAddress: c.cfg.Limits.PerAddress})
}

// encode returns the stored form of settings.
func (c *common) encode(set settings, task store.Key, id string) ([]byte, error) {
	if len(c.seal) == 0 && set.Secrets != nil && c.cfg.Store.Info().Durable {
		c.unencrypted()
	}
	return c.seal.encode(set, task, id)
}

// globalSettings returns the current settings of the global webhook.
func (c *common) globalSettings() (settings, error) {
	if c.cfg.Global.URL == "" {
		return settings{}, &permanentError{reasonNoGlobal}
	}
	return settings{Global: true, URL: c.cfg.Global.URL, Format: c.cfg.Format, Secrets: &secrets{Token: c.cfg.Global.Token}}, nil
}

// endpointOf returns the endpoint of a webhook. For the global webhook it is the endpoint of the
// URL that is configured now, if any.
func (c *common) endpointOf(w *store.Webhook) endpointName {
	switch {
	case w.ID != GlobalID:
		return endpointName{w.Task.Owner, w.Endpoint}
	case c.cfg.Global.URL != "":
		return endpointName{address: endpointOf(c.cfg.Global.URL)}
	}
	return endpointName{address: w.Endpoint}
}
