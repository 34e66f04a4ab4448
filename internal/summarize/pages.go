package summarize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what [Pages] accepts and gives out.
const (
	// MaxDocumentBytes is the size of the largest document that is read.
	MaxDocumentBytes = 32 << 20
	// MaxTextBytes is the most text taken from a document. A PDF with more is
	// refused, as its size says nothing of the text packed into it.
	MaxTextBytes = 20 << 20
)

var (
	// ErrUnsupported reports a media type that cannot be summarized. The error
	// names the type and lists the supported ones.
	ErrUnsupported = errors.New("unsupported media type")
	// ErrMalformed reports a document that is not what its type claims. The
	// error says what is wrong with it.
	ErrMalformed = errors.New("malformed document")
	// ErrEncrypted reports a document that needs a password.
	ErrEncrypted = errors.New("document needs a password")
	// ErrTooLarge reports a document beyond [MaxDocumentBytes], [MaxTextBytes]
	// or a limit of its format.
	ErrTooLarge = errors.New("document is too large")
	// ErrNoText reports a sound document without any text, such as a scan.
	ErrNoText = errors.New("document has no text")
)

// Page is one page of a document, in reading order.
type Page struct {
	// Number is the page's place in the document, from 1.
	Number int
	// Text is plain text, paragraphs separated by blank lines.
	Text string
}

type format string

const (
	formatPlain    format = "text/plain"
	formatMarkdown format = "text/markdown"
	formatHTML     format = "text/html"
	formatPDF      format = "application/pdf"
)

// SupportedTypes lists the media types that [Pages] reads.
func SupportedTypes() []string {
	return []string{string(formatPlain), string(formatMarkdown), string(formatHTML), string(formatPDF)}
}

// Pages extracts the pages of a document that have text. Name and mimeType are
// hints: a specific media type decides, then the content, then the extension of
// name. Pages without text are left out, the others keep their numbers. The
// text is valid UTF-8 without control characters other than line feed and tab.
func Pages(ctx context.Context, name, mimeType string, data []byte) ([]Page, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	if len(data) > MaxDocumentBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, len(data), MaxDocumentBytes)
	}
	f, err := detect(name, mimeType, data)
	if err != nil {
		return nil, err
	}
	pages, err := extract(ctx, f, mimeType, data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f, err)
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("read %s: %w", f, ErrNoText)
	}
	return pages, nil
}

func extract(ctx context.Context, f format, mimeType string, data []byte) ([]Page, error) {
	if f == formatPDF {
		return pdfPages(ctx, data)
	}
	return contained(ctx, func() ([]Page, error) {
		text, err := decodeText(data, charsetOf(f, mimeType, data))
		if err != nil {
			return nil, err
		}
		switch f {
		case formatMarkdown:
			text = markdownText(text)
		case formatHTML:
			text, err = htmlText(text)
		case formatPlain, formatPDF:
		}
		if err != nil {
			return nil, err
		}
		return paginate(text), nil
	})
}

// cancelGrace is how long cancelled work is waited for. A PDF reader checks its
// context often; what else works on is bounded by the limits on its input, and
// is left behind to end by itself.
const cancelGrace = 2 * time.Second

// contained runs a parser so that it can be abandoned, and turns a panic in a
// library into an error.
func contained(ctx context.Context, parse func() ([]Page, error)) ([]Page, error) {
	type result struct {
		pages []Page
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("%w: its parser failed: %.200v", ErrMalformed, p)}
			}
			done <- r
		}()
		r.pages, r.err = parse()
	}()
	select {
	case r := <-done:
		return r.pages, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	return nil, context.Cause(ctx)
}

// detect picks the format. A generic type says nothing, and text/plain is what
// clients send for a file whose type they don't know, so both yield to a PDF
// signature; text/plain otherwise stands, as HTML source may be meant as such.
func detect(name, mimeType string, data []byte) (format, error) {
	declared, err := declaredFormat(mimeType)
	if err != nil {
		return "", err
	}
	if declared == formatPlain && bytes.HasPrefix(data, []byte("%PDF-")) {
		return formatPDF, nil
	}
	if declared != "" {
		return declared, nil
	}
	if looksLikePDF(data) {
		return formatPDF, nil
	}
	if f := formatByExtension(name); f != "" && f != formatPDF {
		return f, nil
	}
	sniffed := http.DetectContentType(data)
	switch {
	case strings.HasPrefix(sniffed, "text/html"):
		return formatHTML, nil
	case strings.HasPrefix(sniffed, "text/"), sniffed == "application/octet-stream", utf8.Valid(data):
		return formatPlain, nil
	}
	return "", unsupported(sniffed)
}

// declaredFormat returns "" for a type that says nothing.
func declaredFormat(mimeType string) (format, error) {
	if strings.TrimSpace(mimeType) == "" {
		return "", nil
	}
	t, _, err := mime.ParseMediaType(mimeType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return "", unsupported(mimeType)
	}
	switch t {
	case "application/octet-stream", "binary/octet-stream", "application/x-download", "application/force-download", "*/*":
		return "", nil
	case "text/plain":
		return formatPlain, nil
	case "text/markdown", "text/x-markdown":
		return formatMarkdown, nil
	case "text/html", "application/xhtml+xml":
		return formatHTML, nil
	case "application/pdf", "application/x-pdf":
		return formatPDF, nil
	}
	return "", unsupported(t)
}

func unsupported(mimeType string) error {
	const longest = 100
	if len(mimeType) > longest {
		mimeType = mimeType[:longest]
	}
	return fmt.Errorf("%w: %q, supported are %s", ErrUnsupported, mimeType, strings.Join(SupportedTypes(), ", "))
}

func formatByExtension(name string) format {
	switch strings.ToLower(path.Ext(name)) {
	case ".txt", ".text", ".log":
		return formatPlain
	case ".md", ".markdown", ".mdown":
		return formatMarkdown
	case ".html", ".htm", ".xhtml":
		return formatHTML
	case ".pdf":
		return formatPDF
	}
	return ""
}

// looksLikePDF looks beyond the first byte, since readers accept some junk
// before the header and mail gateways add it.
func looksLikePDF(data []byte) bool {
	const window = 1024
	head := data[:min(len(data), window)]
	return bytes.Contains(head, []byte("%PDF-"))
}
