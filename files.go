package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

const (
	defaultFileBytes   = 10 << 20
	defaultFileTimeout = 30 * time.Second
	defaultFilesAtOnce = 64
	// filesPerHost is how many of these come from one host and port.
	filesPerHost = 8
)

// fileReader fetches what strangers name.
type fileReader struct {
	sender  *safehttp.Client // nil: off
	limit   int64
	timeout time.Duration
	places  *memory.Budget // a byte is a file
	header  http.Header
	log     *slog.Logger
}

// newFileReader returns what reads files, or all that is wrong with f. It warns of
// addresses that are not public and may be called. With several owners one has half of the places.
func newFileReader(f Files, w Webhooks, multiOwner bool, logger *slog.Logger) (*fileReader, error) {
	atOnce := int64(cmp.Or(f.AtOnce, defaultFilesAtOnce))
	if !multiOwner {
		atOnce *= 2 // there is one owner, who may have half
	}
	r := &fileReader{
		limit: cmp.Or(f.MaxBytes, defaultFileBytes), timeout: cmp.Or(f.Timeout, defaultFileTimeout),
		places: memory.New(max(atOnce, 1)), header: http.Header{"User-Agent": {w.agent()}}, log: logger,
	}
	var errs []error
	if r.limit < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes is %d, want 0 or more", f.MaxBytes))
	}
	if atOnce < 2 {
		errs = append(errs, fmt.Errorf("AtOnce is %d, want at least 1, with Tokens 2", f.AtOnce))
	}
	if r.timeout < 0 {
		errs = append(errs, fmt.Errorf("Timeout is %s, want 0 or more", f.Timeout))
	}
	sender, policy, err := newSender(w, safehttp.ClientConfig{Timeout: r.timeout, MaxConnsPerHost: filesPerHost}, f.AllowNets, f.AllowHosts)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("files config: %w", err)
	}
	if f.Off {
		return r, nil
	}
	if len(policy.AllowNets) > 0 || len(policy.AllowHosts) > 0 {
		logger.Warn("files may be read from addresses that are not public: whoever may send a message may be told what is there",
			"nets", fmt.Sprint(policy.AllowNets), "hosts", fmt.Sprint(policy.AllowHosts))
	}
	r.sender = sender
	return r, nil
}

// ReadFile returns the content and the media type of a file, which may be "": what came
// with the message, or what its URI names, which is fetched from the public internet
// without following redirects, as [Config.Files] says. Each call fetches again; wrap it in
// [Step] if later attempts must see the same, and use [a2a.File.Info] for the name.
//
// The error says what is wrong in words for the client. Its code is [a2a.CodeInvalid] for
// a URI that must not be called or does not name a file, [a2a.CodeTooLarge],
// [a2a.CodeUnsupported] when [Files.Off] is set, or [a2a.CodeUnavailable] or
// [a2a.CodeExhausted] for what may pass: these are also marked with [Retry]. When ctx is done,
// it is its cause.
//
// Fetched content draws from [Config.Memory] until the handler returns.
func (t *Turn) ReadFile(ctx context.Context, f a2a.File) (data []byte, mimeType string, err error) {
	if f == nil {
		return nil, "", a2a.Errorf(a2a.CodeInvalid, "there is no file")
	}
	_, mimeType = f.Info()
	switch f := f.(type) {
	case a2a.FileWithBytes:
		return f.Bytes, mimeType, nil
	case a2a.FileWithURI:
		data, contentType, err := t.files.fetch(ctx, t.turn, f.URI)
		return data, cmp.Or(mimeType, contentType), err
	}
	return nil, "", a2a.Errorf(a2a.CodeUnsupported, "files of type %T cannot be read", f)
}

func (r *fileReader) fetch(ctx context.Context, t *engine.Turn, uri string) (data []byte, contentType string, err error) {
	if r.sender == nil {
		return nil, "", a2a.Errorf(a2a.CodeUnsupported, "files by URI are not fetched here: send the bytes inline")
	}
	place := r.places.Hold(t.Owner())
	for place.Grow(ctx, 1) != nil { // it waits for a while only
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
	}
	defer place.Release()
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var held []func()
	data, contentType, err = r.sender.Fetch(limited, uri, r.header, r.limit, func(ctx context.Context, bytes int64) error {
		release, err := t.Reserve(ctx, bytes)
		if err == nil {
			held = append(held, release)
		}
		return err
	})
	if err == nil {
		return data, contentType, nil
	}
	for _, release := range held {
		release()
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, "", cause
	}
	var failed *safehttp.Error
	if !errors.As(err, &failed) {
		return nil, "", r.unheld(err)
	}
	detail := ""
	var refusal *safehttp.Refusal
	if errors.As(err, &refusal) {
		detail = refusal.Detail
	}
	host := ""
	if u, err := url.Parse(uri); err == nil {
		host = u.Host // the rest may be secret, such as a signature
	}
	r.log.Info("file was not fetched", "task", t.TaskID(), "host", host, "error", failed, "detail", detail)
	return nil, "", r.explain(failed)
}

// unheld makes of why there is no memory for a file what its client may know.
func (r *fileReader) unheld(err error) error {
	if a2a.CodeOf(err) == a2a.CodeExhausted {
		return Retry(a2a.Errorf(a2a.CodeExhausted, "the server has no memory for it now"))
	}
	return err
}

// explain makes of why a file was not fetched what its client may know: not where a name
// leads, nor through which proxy.
func (r *fileReader) explain(failed *safehttp.Error) error {
	passing := func(format string, args ...any) error {
		return Retry(a2a.Errorf(a2a.CodeUnavailable, format, args...))
	}
	var refusal *safehttp.Refusal
	switch {
	case errors.As(failed, &refusal):
		return a2a.Errorf(a2a.CodeInvalid, "its URI is refused: %s", refusal.Text)
	case failed.Outcome == safehttp.OutcomeTooLarge:
		return a2a.Errorf(a2a.CodeTooLarge, "it has more than %d bytes", r.limit)
	case failed.Status/100 == 3:
		return a2a.Errorf(a2a.CodeInvalid, "its URI was answered with status %d: redirects are not followed", failed.Status)
	case failed.Outcome == safehttp.OutcomeStatus && !mayPass(failed.Status):
		return a2a.Errorf(a2a.CodeInvalid, "its URI was answered with status %d", failed.Status)
	case failed.Outcome == safehttp.OutcomeStatus:
		return passing("its URI was answered with status %d", failed.Status)
	case failed.Outcome == safehttp.OutcomeDNS:
		return passing("the host of its URI has no address")
	case failed.Outcome == safehttp.OutcomeTimeout:
		return passing("fetching it took longer than %s", r.timeout)
	case failed.Outcome == safehttp.OutcomeTLS:
		return passing("the host of its URI cannot be trusted: TLS failed")
	case failed.Outcome == safehttp.OutcomeProtocol:
		return passing("what came for its URI broke off, or is not what HTTP asks for")
	}
	return passing("the host of its URI cannot be reached")
}

// mayPass reports whether an answer of a status may be another one later.
func mayPass(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}
