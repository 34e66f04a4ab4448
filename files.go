package holdfast

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// maxFilesPerHost is the maximum number of concurrent fetches from one host and port.
const maxFilesPerHost = 8

// fileReader fetches files from URIs that messages name.
type fileReader struct {
	client  *safehttp.Client // nil if fetching is off
	limit   int64
	timeout time.Duration
	slots   *memory.Budget // one unit is one fetch
	header  http.Header
	log     *slog.Logger
}

// newFileReader returns a fileReader. It logs a warning if addresses that are not public are
// allowed. If callers are authenticated, one owner may use half of the concurrent fetches.
func newFileReader(cfg Config) (*fileReader, error) {
	f, slots := &cfg.Fetch, int64(cfg.Fetch.Concurrency)
	if !cfg.authenticates() {
		slots *= 2 // a budget gives one owner half of it
	}
	r := &fileReader{
		limit: f.MaxBytes, timeout: f.Timeout, slots: memory.New(slots), header: http.Header{"User-Agent": {cfg.Webhooks.UserAgent}}, log: cfg.Logger,
	}
	if f.Off {
		return r, nil
	}
	policy := cfg.fetchPolicy(new(config.Error)) // the settings are valid
	if len(policy.AllowNets) > 0 || len(policy.AllowHosts) > 0 {
		cfg.Logger.Warn("files may be read from addresses that are not public: their content may reach everyone who can send a message",
			"nets", fmt.Sprint(policy.AllowNets), "hosts", fmt.Sprint(policy.AllowHosts))
	}
	proxy, err := safehttp.ParseProxy(cfg.Webhooks.EgressProxy)
	if err != nil {
		return nil, err
	}
	r.client, err = safehttp.New(safehttp.ClientConfig{Policy: policy, EgressProxy: proxy, Timeout: f.Timeout, MaxConnsPerHost: maxFilesPerHost})
	return r, err
}

// ReadFile returns the content of a file and its media type, which may be "". The content is
// part of the message, or the agent stored it because it has more than 64 KiB, or ReadFile
// fetches it from the file's URI, as [Config.Fetch] configures. [Turn.OpenFile] reads a file
// in constant memory. Only hosts on the public internet can be reached, and redirects are not
// followed. Every call fetches again: use [Step] if later attempts must see the same content.
// Use [a2a.File.Info] for the name.
//
// The text of the error is meant for the client. Its code is one of:
//   - [a2a.CodeInvalid]: the URI is not allowed or does not name a file
//   - [a2a.CodeTooLarge]: the file exceeds [Fetch.MaxBytes]
//   - [a2a.CodeUnsupported]: [Fetch.Off] is set
//   - [a2a.CodeUnavailable]: a temporary failure, also marked with [Retry]
//   - [a2a.CodeExhausted]: there is no free memory for the file, see [Turn.Reserve]
//
// If ctx is done, the error is its cause.
//
// The memory of fetched content counts toward [Config.Memory] until the handler returns.
func (t *Turn) ReadFile(ctx context.Context, f a2a.File) (data []byte, mimeType string, err error) {
	if f == nil {
		return nil, "", a2a.Errorf(a2a.CodeInvalid, "file is nil")
	}
	_, mimeType = f.Info()
	switch f := f.(type) {
	case a2a.FileWithBytes:
		return f.Bytes, mimeType, nil
	case a2a.FileWithURI:
		if engine.IsReference(f) {
			data, err := t.turn.ReadFile(ctx, f)
			return data, mimeType, err
		}
		data, contentType, err := t.files.fetch(ctx, t.turn, f.URI)
		return data, cmp.Or(mimeType, contentType), err
	}
	return nil, "", a2a.Errorf(a2a.CodeUnsupported, "file type %T is not supported", f)
}

// OpenFile returns a reader of a file's content, and its media type, which may be "". It reads a
// file that the agent stores, which is one above 64 KiB, in constant memory. Other files are first
// read as a whole by [Turn.ReadFile], with its errors. The caller closes the reader. If a stored
// file is damaged, the reader returns an error before the end of the file.
func (t *Turn) OpenFile(ctx context.Context, f a2a.File) (content io.ReadCloser, mimeType string, err error) {
	if engine.IsReference(f) {
		_, mimeType = f.Info()
		content, err = t.turn.OpenFile(ctx, f)
		return content, mimeType, err
	}
	data, mimeType, err := t.ReadFile(ctx, f)
	return io.NopCloser(bytes.NewReader(data)), mimeType, err
}

func (r *fileReader) fetch(ctx context.Context, t *engine.Turn, uri string) (data []byte, contentType string, err error) {
	if r.client == nil {
		return nil, "", a2a.Errorf(a2a.CodeUnsupported, "fetching files by URI is disabled; send the bytes inline")
	}
	slot := r.slots.Hold(t.Owner())
	for slot.Grow(ctx, 1) != nil { // Grow waits up to memory.Wait
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
	}
	defer slot.Release()
	fetchCtx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var releases []func()
	data, contentType, err = r.client.Fetch(fetchCtx, uri, r.header, r.limit, func(ctx context.Context, bytes int64) error {
		release, err := t.Reserve(ctx, bytes)
		if err == nil {
			releases = append(releases, release)
		}
		return err
	})
	if err == nil {
		return data, contentType, nil
	}
	for _, release := range releases {
		release()
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, "", cause
	}
	var failed *safehttp.Error
	if !errors.As(err, &failed) { // an error of Reserve
		return nil, "", err
	}
	detail := ""
	var refusal *safehttp.Refusal
	if errors.As(err, &refusal) {
		detail = refusal.Detail
	}
	host := ""
	if u, err := url.Parse(uri); err == nil {
		host = u.Host // the rest may contain secrets, such as a signature
	}
	r.log.Info("file fetch failed", "task", t.TaskID(), "host", host, "error", failed, "detail", detail)
	return nil, "", r.publicError(failed)
}

// publicError returns the error for the client if a fetch failed. It does not reveal the
// addresses of a host name or the proxy.
func (r *fileReader) publicError(failed *safehttp.Error) error {
	temporary := func(format string, args ...any) error {
		return Retry(a2a.Errorf(a2a.CodeUnavailable, format, args...))
	}
	var refusal *safehttp.Refusal
	switch {
	case errors.As(failed, &refusal):
		return a2a.Errorf(a2a.CodeInvalid, "URI rejected: %s", refusal.Text)
	case failed.Outcome == safehttp.OutcomeTooLarge:
		return a2a.Errorf(a2a.CodeTooLarge, "file exceeds the limit of %d bytes", r.limit)
	case failed.Status/100 == 3:
		return a2a.Errorf(a2a.CodeInvalid, "URI returned status %d; redirects are not followed", failed.Status)
	case failed.Outcome == safehttp.OutcomeStatus && !retryableStatus(failed.Status):
		return a2a.Errorf(a2a.CodeInvalid, "URI returned status %d", failed.Status)
	case failed.Outcome == safehttp.OutcomeStatus:
		return temporary("URI returned status %d", failed.Status)
	case failed.Outcome == safehttp.OutcomeDNS:
		return temporary("host name does not resolve")
	case failed.Outcome == safehttp.OutcomeTimeout:
		return temporary("fetch exceeded the timeout of %s", r.timeout)
	case failed.Outcome == safehttp.OutcomeTLS:
		return temporary("TLS connection to the host failed")
	case failed.Outcome == safehttp.OutcomeProtocol:
		return temporary("the response was incomplete or not valid HTTP")
	}
	return temporary("host unreachable")
}

// retryableStatus reports whether a later request may return another status.
func retryableStatus(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}
