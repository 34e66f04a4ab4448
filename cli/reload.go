package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
)

// reloader reloads the tokens, the roles and the certificate of a running server.
type reloader struct {
	cmd    *serveCmd
	access *access
	cert   *certificate
	log    *slog.Logger
}

// run reloads after each SIGHUP until ctx is done.
func (r *reloader) run(ctx context.Context, hangups <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			r.reload()
		}
	}
}

// reload replaces the tokens, the roles and the certificate. If a file is not valid, the previous content stays
// in use. Open connections stay open.
func (r *reloader) reload() {
	if r.cmd.TokensFile == "" && r.cmd.Roles == "" && r.cert == nil {
		r.log.Warn("nothing to reload: neither --tokens-file, --roles-file nor --tls-cert is set")
	}
	if r.cmd.Roles != "" {
		roles, err := r.cmd.roles(r.access.providers)
		if err == nil {
			err = r.access.auth.SetRoles(roles)
		}
		if err != nil {
			r.log.Error("roles not reloaded; the previous roles stay in use", "error", err)
		} else {
			r.log.Info("roles reloaded", "file", r.cmd.Roles)
		}
	}
	if r.cmd.TokensFile != "" {
		tokens, err := r.cmd.tokens()
		if err == nil {
			err = r.access.tokens.Set(tokens)
		}
		if err != nil {
			r.log.Error("tokens not reloaded; the previous tokens stay valid", "error", err)
		} else {
			r.log.Info("tokens reloaded", "tokens", len(tokens))
		}
	}
	if r.cert != nil {
		if err := r.cert.load(); err != nil {
			r.log.Error("certificate not reloaded; the previous certificate stays in use", "error", err)
		} else {
			r.log.Info("certificate reloaded", "file", r.cert.certFile)
		}
	}
}

// certificate is a TLS certificate that can be reloaded at any time.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// certificate loads the certificate of the settings; it returns nil for plain HTTP.
func (c *serveCmd) certificate() (*certificate, error) {
	if c.TLSCert == "" && c.TLSKey == "" {
		return nil, nil
	}
	if c.TLSCert == "" || c.TLSKey == "" {
		return nil, errors.New("--tls-cert and --tls-key must be given together")
	}
	cert := &certificate{certFile: c.TLSCert, keyFile: c.TLSKey}
	return cert, cert.load()
}

func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.certFile, c.keyFile, err)
	}
	c.current.Store(&pair)
	return nil
}

// tlsListener returns a listener for TLS connections over ln.
func (c *certificate) tlsListener(ln net.Listener) net.Listener {
	return tls.NewListener(ln, c.tlsConfig("http/1.1"))
}

// tlsConfig returns the configuration of connections with an application protocol.
func (c *certificate) tlsConfig(protocol string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{protocol},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
