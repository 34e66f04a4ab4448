// Package recording records what a server sends, for tests that validate it against the schemas of
// the protocol.
package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// Exchange is a request with its response, or a request to a webhook.
type Exchange struct {
	Method, Path string
	// Version is the header A2A-Version of the request.
	Version string
	Request []byte

	Status int
	// ContentType is the content type of the response.
	ContentType string
	// Response is the body of the response. It is empty for a webhook.
	Response []byte

	// Webhook reports that the agent sent the request.
	Webhook bool
}

// Handler returns a handler that passes each exchange of next to record, after its response is
// complete or has failed.
func Handler(next http.Handler, record func(Exchange)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := new(buffer)
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, request), r.Body}
		out := &writer{ResponseWriter: w, status: http.StatusOK}
		x := Exchange{Method: r.Method, Path: r.URL.Path, Version: r.Header.Get("A2A-Version")}
		defer func() {
			x.Request, x.Status, x.ContentType, x.Response = request.bytes(), out.status, w.Header().Get("Content-Type"), out.body.Bytes()
			record(x)
		}()
		next.ServeHTTP(out, r)
	})
}

// buffer may be read while another goroutine writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

// writer keeps a copy of the response.
type writer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// Unwrap implements the method that [http.ResponseController] uses.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.body.Write(p[:n])
	return n, err
}

// File is a file of exchanges. Its methods may be called concurrently.
type File struct {
	mu sync.Mutex
	f  *os.File
}

// Create creates a file of exchanges in a directory.
func Create(dir string) (*File, error) {
	f, err := os.CreateTemp(dir, "*.exchanges")
	if err != nil {
		return nil, err
	}
	return &File{f: f}, nil
}

// Append adds an exchange to the file.
func (f *File) Append(x Exchange) error {
	raw, err := json.Marshal(x)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.f.Write(append(raw, '\n'))
	return err
}

// Load reads the exchanges of all files in a directory.
func Load(dir string) ([]Exchange, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.exchanges"))
	if err != nil {
		return nil, err
	}
	var all []Exchange
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bufio.NewReader(f)); err == nil; {
			var x Exchange
			if err = d.Decode(&x); err == nil {
				all = append(all, x)
			}
		}
		_ = f.Close()
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return all, nil
}
