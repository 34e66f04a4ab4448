package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Config configures a [Store].
type Config struct {
	// URL is redis://[user:password@]host[:port][/database], or with rediss:// for TLS. It names
	// several nodes of a cluster as host1:port1,host2:port2. The parameter cluster=true states that a
	// single address is a node of a cluster; Open finds this out by itself. Required.
	URL string
	// Prefix is the start of all keys. Default "holdfast:".
	Prefix string
	// TLS configures connections to rediss:// URLs. Default: the certificate authorities of the
	// system.
	TLS *tls.Config
	// Timeout is the maximum duration of a request to the server, with its repetitions. A call makes
	// one request or two; those that read or copy many messages make more. Default 5 s.
	Timeout time.Duration
	// Now is the clock for times and expiry of transcripts. Default time.Now.
	Now func() time.Time
}

const (
	defaultPrefix  = "holdfast:"
	defaultTimeout = 5 * time.Second
)

// complete sets defaults and returns the options of the client.
func (c *Config) complete() (*goredis.UniversalOptions, error) {
	var errs []error
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("redis: Prefix is %q, must not contain braces", c.Prefix))
	}
	if c.Timeout < 0 || c.Timeout > 0 && c.Timeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("redis: Timeout is %v, want at least 1ms", c.Timeout))
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	o, err := parseURL(c.URL)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	// An attempt gets half of the time, so that a call survives a lost connection.
	attempt := c.Timeout / 2
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = attempt, attempt, attempt, attempt
	if c.TLS != nil && o.TLSConfig != nil {
		name := o.TLSConfig.ServerName
		if o.TLSConfig = c.TLS.Clone(); o.TLSConfig.ServerName == "" {
			o.TLSConfig.ServerName = name
		}
	}
	o.MaxRetries, o.DialerRetries, o.Protocol, o.DisableIdentity = -1, 1, 2, true
	return o, nil
}

// parseURL returns the options of a URL. Its errors do not contain the URL, which has the password.
func parseURL(text string) (*goredis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "redis" && scheme != "rediss" {
		return nil, errors.New("redis: URL must start with redis:// or rediss://")
	}
	at := strings.LastIndex(strings.SplitN(rest, "/", 2)[0], "@") + 1
	end := len(rest)
	if i := strings.IndexAny(rest[at:], "/?"); i >= 0 {
		end = at + i
	}
	hosts := strings.Split(rest[at:end], ",")
	u, err := url.Parse(scheme + "://" + rest[:at] + hosts[0] + rest[end:])
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("redis: URL: %w", err)
	}
	q := u.Query()
	addrs := slices.Concat(hosts[1:], q["addr"])
	cluster := len(addrs) > 0 || q.Get("cluster") == "true"
	q.Del("addr")
	q.Del("cluster")
	u.RawQuery = q.Encode()
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("redis: URL: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	if cluster && o.DB != 0 {
		return nil, errors.New("redis: URL: a cluster has no databases, remove the path")
	}
	return &goredis.UniversalOptions{
		Addrs: append([]string{o.Addr}, addrs...), IsClusterMode: cluster, DB: o.DB, Username: o.Username, Password: o.Password,
		TLSConfig: o.TLSConfig, PoolSize: o.PoolSize, ClientName: o.ClientName,
	}, nil
}
