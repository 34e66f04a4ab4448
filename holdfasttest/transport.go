package holdfasttest

import (
	"io"
	"net/http"
	"sync"
)

// inProcess returns an HTTP client that calls h directly. Responses are streamed.
func inProcess(h http.Handler) *http.Client { return &http.Client{Transport: &roundTripper{h}} }

type roundTripper struct{ handler http.Handler }

func (rt *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	body, writer := io.Pipe()
	rw := &responseWriter{header: make(http.Header), pipe: writer, started: make(chan struct{})}
	inner := req.Clone(req.Context())
	inner.RequestURI, inner.RemoteAddr = req.URL.RequestURI(), "127.0.0.1:0"
	inner.Host = req.URL.Host
	if inner.URL.Path == "" {
		inner.URL.Path = "/"
	}
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { //nolint:errorlint // as net/http
					panic(p)
				}
				_ = writer.CloseWithError(io.ErrUnexpectedEOF) // never fails
			}
			rw.WriteHeader(http.StatusOK)
			_ = writer.Close() // never fails
		}()
		rt.handler.ServeHTTP(rw, inner)
	}()
	select {
	case <-rw.started:
	case <-req.Context().Done():
		_ = body.Close()
		return nil, req.Context().Err()
	}
	return &http.Response{
		StatusCode: rw.status, Status: http.StatusText(rw.status), Header: rw.sent, Body: body, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}, nil
}

type responseWriter struct {
	header  http.Header
	pipe    *io.PipeWriter
	once    sync.Once
	started chan struct{} // closed when status and sent are set
	status  int
	sent    http.Header
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush does nothing: writes are not buffered.
func (w *responseWriter) Flush() { w.WriteHeader(http.StatusOK) }
