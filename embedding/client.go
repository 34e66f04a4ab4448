package embedding

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// Config configures a Client. Zero fields take the documented default.
type Config struct {
	// URL is the base of the API, as in "https://api.openai.com/v1" or "http://localhost:11434/v1".
	// Required.
	URL string
	// Key is sent as bearer token. Default: none.
	Key string
	// Model is the name of the model. Required.
	Model string
	// Name identifies the model in collections. Default: Model. Change it if the server changes the
	// model of the same name.
	Name string
	// Dimensions is the number of components that the server shall return. Embed fails if it returns
	// another number. Default: the model's own number.
	Dimensions int
	// BatchTexts and BatchBytes are the maximum of a request. A longer text is a request of its
	// own. Default 256 texts, 256 KiB.
	BatchTexts, BatchBytes int
	// Attempts is the maximum number of requests for the same texts. Default 4.
	Attempts int
	// MaxDelay is the maximum delay before the next attempt. If the server requests a longer
	// one, Embed fails. Default 30 s.
	MaxDelay time.Duration
	// Timeout is the maximum duration of a request. Default 60 s.
	Timeout time.Duration
	// CacheBytes is the memory for recent embeddings. Default 32 MiB; negative means none.
	CacheBytes int
	// RootCAs are the trusted authorities. Default: the system's authorities.
	RootCAs *x509.CertPool
}

const (
	firstDelay   = 500 * time.Millisecond
	maxComponent = 32    // bytes of a component in JSON
	maxDimension = 16384 // components, for the limit of a response
)

// Client computes embeddings. It is safe for concurrent use.
type Client struct {
	cfg    Config
	http   *safehttp.Client
	target *url.URL
	cache  cache
	wait   func(ctx context.Context, d time.Duration) error
}

// New returns a client, or an error that lists all problems of cfg.
func New(cfg Config) (*Client, error) {
	cfg.Name = cmp.Or(cfg.Name, cfg.Model)
	cfg.BatchTexts, cfg.BatchBytes = cmp.Or(cfg.BatchTexts, 256), cmp.Or(cfg.BatchBytes, 256<<10)
	cfg.Attempts, cfg.MaxDelay = cmp.Or(cfg.Attempts, 4), cmp.Or(cfg.MaxDelay, 30*time.Second)
	cfg.Timeout, cfg.CacheBytes = cmp.Or(cfg.Timeout, time.Minute), cmp.Or(cfg.CacheBytes, 32<<20)
	target, err := url.Parse(strings.TrimSuffix(cfg.URL, "/") + "/embeddings")
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("embedding: "+format, args...))
	}
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" || target.User != nil {
		problem("URL: must be an http or https URL without user and password")
	}
	if cfg.Model == "" {
		problem("Model: must not be empty")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"Dimensions", int64(cfg.Dimensions)}, {"BatchTexts", int64(cfg.BatchTexts)}, {"BatchBytes", int64(cfg.BatchBytes)}, {"Attempts", int64(cfg.Attempts)}, {"MaxDelay", int64(cfg.MaxDelay)}, {"Timeout", int64(cfg.Timeout)}} {
		if n.value < 0 {
			problem("%s: must not be negative", n.name)
		}
	}
	if strings.ContainsAny(cfg.Key, "\r\n\x00") {
		problem("Key: must be one line")
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	policy, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowHosts: []string{hostPort(target)}})
	if err != nil {
		return nil, fmt.Errorf("embedding: URL: %w", err)
	}
	client, err := safehttp.New(safehttp.ClientConfig{Policy: policy, Timeout: cfg.Timeout, RootCAs: cfg.RootCAs, IdlePerHost: 4})
	if err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	return &Client{cfg: cfg, http: client, target: target, cache: newCache(cfg.CacheBytes), wait: wait}, nil
}

// hostPort returns the host of a URL with its port. The operator has named it, so it may have a
// private address.
func hostPort(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Name returns the name of the model.
func (c *Client) Name() string { return c.cfg.Name }

// Close closes idle connections. The client remains usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Embed returns an embedding for each text. It returns an error with code invalid_params if the server
// rejects the texts, with code unavailable if the server fails or is busy, and the context's error if
// ctx is done.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	missing := make(map[string][]int) // positions by text
	var distinct []string
	for i, text := range texts {
		if all[i] = c.cache.get(text); all[i] != nil {
			continue
		}
		if missing[text] == nil {
			distinct = append(distinct, text)
		}
		missing[text] = append(missing[text], i)
	}
	for len(distinct) > 0 {
		n := c.batch(distinct)
		found, err := c.request(ctx, distinct[:n])
		if err != nil {
			return nil, err
		}
		for i, text := range distinct[:n] {
			c.cache.add(text, found[i])
			for _, at := range missing[text] {
				all[at] = slices.Clone(found[i])
			}
		}
		distinct = distinct[n:]
	}
	return all, ctx.Err()
}

// batch returns the number of the first texts that fit into a request, at least 1.
func (c *Client) batch(texts []string) int {
	n, size := 0, 0
	for ; n < min(len(texts), c.cfg.BatchTexts); n++ {
		if size += len(texts[n]); size > c.cfg.BatchBytes && n > 0 {
			break
		}
	}
	return n
}

// request asks the server until it answers or the attempts are exhausted.
func (c *Client) request(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := encode(c.cfg.Model, c.cfg.Dimensions, texts)
	if err != nil {
		return nil, err
	}
	delay := min(firstDelay, c.cfg.MaxDelay)
	for attempt := 1; ; attempt++ {
		found, after, err := c.attempt(ctx, body, len(texts))
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case after < 0 || attempt >= c.cfg.Attempts || after > c.cfg.MaxDelay:
			return nil, err
		}
		pause := min(c.cfg.MaxDelay, max(after, delay/2+rand.N(delay/2+1))) //nolint:gosec // need not be secret
		if err := c.wait(ctx, pause); err != nil {
			return nil, err
		}
		delay = min(2*delay, c.cfg.MaxDelay)
	}
}

// noRetry is the delay after a failure that another attempt would repeat.
const noRetry = -1

// attempt makes one request. after is the delay that the server requests before the next one, 0 if it
// requests none.
func (c *Client) attempt(ctx context.Context, body []byte, texts int) (found [][]float32, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	if c.cfg.Key != "" {
		header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	limit := int64(1<<20 + texts*cmp.Or(c.cfg.Dimensions, maxDimension)*maxComponent)
	resp, data, err := c.http.Exchange(ctx, safehttp.Request{URL: c.target, Header: header, Body: body}, limit)
	var failure *safehttp.Error
	switch {
	case errors.As(err, &failure) && (failure.Outcome == safehttp.OutcomeRefused || failure.Outcome == safehttp.OutcomeTooLarge):
		return nil, noRetry, a2a.Wrap(a2a.CodeUnavailable, err, "embedding: %v", err)
	case err != nil:
		return nil, 0, a2a.Wrap(a2a.CodeUnavailable, err, "embedding: %v", err)
	case resp.Status == http.StatusOK:
		found, err := decode(data, texts, c.cfg.Dimensions)
		return found, noRetry, err
	case resp.Status == http.StatusTooManyRequests || resp.Status == http.StatusRequestTimeout || resp.Status >= 500:
		return nil, resp.RetryAfter, a2a.Errorf(a2a.CodeUnavailable, "embedding: status %d%s", resp.Status, c.reason(data))
	case resp.Status == http.StatusBadRequest || resp.Status == http.StatusRequestEntityTooLarge || resp.Status == http.StatusUnprocessableEntity:
		return nil, noRetry, a2a.Errorf(a2a.CodeInvalid, "embedding: status %d%s", resp.Status, c.reason(data))
	}
	return nil, noRetry, a2a.Errorf(a2a.CodeUnavailable, "embedding: status %d%s", resp.Status, c.reason(data))
}
