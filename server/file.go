package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
	"github.com/holdfast-dev/holdfast/store/blob"
)

// errNoFile is the same for all files that the caller cannot read.
var errNoFile error = a2a.Errorf(a2a.CodeMethodNotFound, "file not found, or the link has expired")

// serveFile responds with the content of a file to a caller with a signed link, or to its owner.
func (s *Server) serveFile(x *exchange.Exchange) {
	files, ref, q := s.cfg.Engine.Files(), x.PathValue("ref"), x.Request.URL.Query()
	ctx := x.Request.Context()
	var err error
	if owner := ""; fileref.Signed(q) {
		if owner, err = files.Verify(ctx, ref, q); err == nil && owner == "" {
			err = errNoFile
		}
		x.Principal = a2a.Principal{ID: owner}
	} else {
		if !s.authenticate(x) {
			return
		}
		if !s.authorizeRoute(x, &operationFile) {
			return
		}
	}
	var info blob.Info
	if err == nil {
		info, err = files.Blobs().Stat(ctx, x.Principal.ID, ref)
	}
	content := &fileReader{x: x, blobs: files.Blobs(), info: info}
	if err == nil && x.Request.Method == http.MethodGet && !partial(x.Request) {
		err = content.open() // an error is a response as long as no content was sent
	}
	if errors.Is(err, blob.ErrNotFound) {
		err = errNoFile
	}
	if err != nil {
		s.refuse(x, a2a.CodeOf(err).HTTPStatus(), err)
		return
	}
	defer content.Close()
	setFileHeaders(x.Header(), info)
	x.ClearDeadlines() // fileWriter sets one for each write
	http.ServeContent(fileWriter{x}, x.Request, "", time.Time{}, content)
	if content.err != nil {
		x.Log.Error("file cannot be sent", "request", x.ID, "blob", ref, "error", content.err)
		panic(http.ErrAbortHandler) // shows the client that the response is incomplete
	}
}

// partial reports whether the response may lack content: the request is for a part of a file, or has a condition. A
// request for several parts gets the whole file, as HTTP permits.
func partial(r *http.Request) bool {
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range")
	}
	for _, name := range []string{"Range", "If-None-Match", "If-Match"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// setFileHeaders sets the headers of a file. Browsers save it instead of showing it, since its
// content comes from another party.
func setFileHeaders(h http.Header, info blob.Info) {
	h.Set("Content-Type", info.ContentType)
	h.Set("ETag", `"`+info.Digest.String()+`"`)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Disposition", disposition(info.Name))
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Authorization")
}

// disposition returns the header Content-Disposition for a file with a name that a client may have
// chosen.
func disposition(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.TrimLeft(strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || strings.ContainsRune(`/<>:"|?*`, r) {
			return '_'
		}
		return r
	}, name), ". ")
	const maxName = 200
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[len(runes)-maxName:])
	}
	if name == "" {
		return "attachment"
	}
	if header := mime.FormatMediaType("attachment", map[string]string{"filename": name}); header != "" {
		return header
	}
	return "attachment"
}

// fileWriter sets a deadline for each write, which ends the response to a client that does not read
// it.
type fileWriter struct{ *exchange.Exchange }

// Write implements [http.ResponseWriter].
func (w fileWriter) Write(p []byte) (int, error) {
	w.SetWriteDeadline()
	return w.Exchange.Write(p)
}

// fileReader reads a blob at any position. It opens the blob when it is read.
type fileReader struct {
	x     *exchange.Exchange
	blobs blob.Store
	info  blob.Info
	at    int64
	r     io.ReadCloser // at position at; may be nil
	err   error         // of the content, except its end
}

// open opens the blob at the current position.
func (f *fileReader) open() error {
	r, info, err := f.blobs.OpenRange(f.x.Request.Context(), f.x.Principal.ID, f.info.Ref, f.at, -1)
	if err != nil {
		return err
	}
	if f.r = r; f.at == 0 {
		f.r = fileref.NewVerifier(r, info)
	}
	return nil
}

// Read implements [io.Reader].
func (f *fileReader) Read(p []byte) (n int, err error) {
	if f.r == nil {
		err = f.open()
	}
	if err == nil {
		n, err = f.r.Read(p)
		f.at += int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) && f.x.Request.Context().Err() == nil {
		f.err = err
	}
	return n, err
}

// Seek implements [io.Seeker].
func (f *fileReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.info.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start of the file")
	}
	if offset != f.at && whence != io.SeekEnd {
		f.Close()
	}
	if f.r == nil {
		f.at = offset
	}
	return offset, nil
}

// Close closes the blob.
func (f *fileReader) Close() {
	if f.r != nil {
		_ = f.r.Close()
		f.r = nil
	}
}
