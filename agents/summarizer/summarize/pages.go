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

// Limits of [Reader].
const (
	// MaxDocumentBytes is the maximum size of a document.
	MaxDocumentBytes = 32 << 20
	// MaxTextBytes is the maximum size of the text of a document. A PDF with more text is rejected;
	// the size of a PDF does not limit its text, which is compressed.
	MaxTextBytes = 20 << 20
	// MaxPDFTime is the maximum time to read a PDF, whatever the context allows.
	MaxPDFTime = 30 * time.Second
)

var (
	// ErrUnsupported reports a media type that cannot be summarized. The error
	// names the type and lists the supported ones.
	ErrUnsupported = errors.New("unsupported media type")
	// ErrMalformed reports a document that its declared type does not describe. The error gives the
	// reason.
	ErrMalformed = errors.New("malformed document")
	// ErrEncrypted reports a document that needs a password.
	ErrEncrypted = errors.New("document needs a password")
	// ErrTooLarge reports a document that exceeds [MaxDocumentBytes], [MaxTextBytes] or a limit of
	// its format.
	ErrTooLarge = errors.New("document is too large")
	// ErrNoText reports a valid document without text, such as a scan.
	ErrNoText = errors.New("document has no text")
)

// MemoryOfPages returns about how many bytes of memory [Reader.Pages] needs for a document besides
// the document itself.
func MemoryOfPages(data []byte) int64 {
	const objects = 32 << 20 // of a PDF
	if HasPDFHeader(data) {
		return 4*int64(len(data)) + objects
	}
	return 4 * int64(len(data))
}

// Page is one page of a document, in reading order.
type Page struct {
	// Number is the number of the page in the document, from 1.
	Number int
	// Text is plain text. Blank lines separate paragraphs.
	Text string
}

type format string

const (
	formatPlain    format = "text/plain"
	formatMarkdown format = "text/markdown"
	formatHTML     format = "text/html"
	formatPDF      format = "application/pdf"

	formatGeneric format = "" // no particular format
	formatUnknown format = "unknown"
)

// Reader reads documents. The zero value reads plain text, Markdown and HTML.
type Reader struct {
	// PDF returns the pages of a PDF that have text, at most maxText bytes, which may contain
	// control characters. Its errors are [ErrMalformed], [ErrEncrypted], [ErrTooLarge] or the cause
	// of ctx. Default: PDF is an unsupported type.
	PDF func(ctx context.Context, data []byte, maxText int) ([]Page, error)
}

// SupportedTypes lists the media types that the reader reads.
func (r Reader) SupportedTypes() []string {
	types := []string{string(formatPlain), string(formatMarkdown), string(formatHTML)}
	if r.PDF != nil {
		types = append(types, string(formatPDF))
	}
	return types
}

// Pages extracts the pages of a document that have text. name and mimeType are hints: a specific
// media type determines the format, otherwise the content, otherwise the extension of name. Pages
// without text are omitted; the others keep their numbers. The text is valid UTF-8 without control
// characters other than line feed and tab.
func (r Reader) Pages(ctx context.Context, name, mimeType string, data []byte) ([]Page, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	if len(data) > MaxDocumentBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, len(data), MaxDocumentBytes)
	}
	f, err := r.detect(name, mimeType, data)
	if err != nil {
		return nil, err
	}
	pages, err := r.extract(ctx, f, mimeType, data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f, err)
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("read %s: %w", f, ErrNoText)
	}
	return pages, nil
}

func (r Reader) extract(ctx context.Context, f format, mimeType string, data []byte) ([]Page, error) {
	if f == formatPDF {
		return r.extractPDF(ctx, data)
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
		case formatPlain, formatPDF, formatGeneric, formatUnknown:
		}
		if err != nil {
			return nil, err
		}
		return paginate(text), nil
	})
}

func (r Reader) extractPDF(ctx context.Context, data []byte) ([]Page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, MaxPDFTime, fmt.Errorf("%w: takes more than %v to read", ErrTooLarge, MaxPDFTime))
	defer cancel()
	return contained(ctx, func() ([]Page, error) {
		read, err := r.PDF(ctx, data, MaxTextBytes)
		var pages []Page
		for _, p := range read {
			if text := tidyParagraphs(cleanText(p.Text)); text != "" {
				pages = append(pages, Page{Number: p.Number, Text: text})
			}
		}
		return pages, err
	})
}

// cancelGrace is how long a canceled parser may take to return. The PDF parser checks its context
// often. The limits on the input of the others bound their time, so they are abandoned and end by
// themselves.
const cancelGrace = 2 * time.Second

// contained runs a parser in a goroutine that it can abandon, and converts a panic in a library to
// an error.
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

// detect returns the format of a document. A PDF signature takes precedence over a generic media
// type, and over text/plain, which clients send for files of unknown type. Otherwise text/plain
// applies, since the document may be the source of an HTML page.
func (r Reader) detect(name, mimeType string, data []byte) (format, error) {
	f, unknown := declaredFormat(mimeType), mimeType
	switch {
	case f == formatGeneric:
		f, unknown = formatOf(name, data)
	case f == formatPlain && bytes.HasPrefix(data, []byte("%PDF-")):
		f = formatPDF
	}
	if f == formatPDF && r.PDF == nil {
		f, unknown = formatUnknown, string(formatPDF)
	}
	if f != formatUnknown {
		return f, nil
	}
	const longest = 100
	return "", fmt.Errorf("%w: %q, supported are %s", ErrUnsupported, unknown[:min(len(unknown), longest)], strings.Join(r.SupportedTypes(), ", "))
}

// formatOf returns the format of a document without a media type, or [formatUnknown] and the media
// type that its content looks like.
func formatOf(name string, data []byte) (f format, looksLike string) {
	if HasPDFHeader(data) {
		return formatPDF, ""
	}
	if f := formatByExtension(name); f != "" && f != formatPDF {
		return f, ""
	}
	looksLike = http.DetectContentType(data)
	switch {
	case strings.HasPrefix(looksLike, "text/html"):
		return formatHTML, ""
	case strings.HasPrefix(looksLike, "text/"), looksLike == "application/octet-stream", utf8.Valid(data):
		return formatPlain, ""
	}
	return formatUnknown, looksLike
}

// HasPDFHeader reports whether data starts like a PDF. Other readers accept content before the
// header, and mail gateways add some.
func HasPDFHeader(data []byte) bool {
	const window = 1024
	return bytes.Contains(data[:min(len(data), window)], []byte("%PDF-"))
}

// declaredFormat returns the format of a media type.
func declaredFormat(mimeType string) format {
	if strings.TrimSpace(mimeType) == "" {
		return formatGeneric
	}
	t, _, err := mime.ParseMediaType(mimeType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return formatUnknown
	}
	switch t {
	case "application/octet-stream", "binary/octet-stream", "application/x-download", "application/force-download", "*/*":
		return formatGeneric
	case "text/plain":
		return formatPlain
	case "text/markdown", "text/x-markdown":
		return formatMarkdown
	case "text/html", "application/xhtml+xml":
		return formatHTML
	case "application/pdf", "application/x-pdf":
		return formatPDF
	}
	return formatUnknown
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
