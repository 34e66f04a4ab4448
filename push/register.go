package push

import "fmt"

// registry is what a Service needs to keep webhooks.
type registry struct {
	seal         sealer
	globalSecret []byte
}

// newRegistry returns what a Service needs to keep webhooks, or what is wrong with cfg.
func newRegistry(cfg Config) (registry, error) {
	var r registry
	var err error
	if r.seal, err = newSealer(cfg.Keys); err != nil {
		return r, err
	}
	if cfg.Global.Secret != "" {
		if r.globalSecret, err = decodeSecret(cfg.Global.Secret); err != nil {
			return r, fmt.Errorf("Global.Secret %w", err)
		}
	}
	return r, nil
}
