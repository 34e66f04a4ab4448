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

	"github.com/holdfast-dev/holdfast/internal/pdftext"
)

// Limits of [Pages].
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
	ErrMalformed = pdftext.ErrMalformed
	// ErrEncrypted reports a document that needs a password.
	ErrEncrypted = pdftext.ErrEncrypted
	// ErrTooLarge reports a document that exceeds [MaxDocumentBytes], [MaxTextBytes] or a limit of
	// its format.
	ErrTooLarge = pdftext.ErrTooLarge
	// ErrNoText reports a valid document without text, such as a scan.
	ErrNoText = errors.New("document has no text")
)

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
)

// SupportedTypes lists the media types that [Pages] reads.
func SupportedTypes() []string {
	return []string{string(formatPlain), string(formatMarkdown), string(formatHTML), string(formatPDF)}
}

// Pages extracts the pages of a document that have text. name and mimeType are hints: a specific
// media type determines the format, otherwise the content, otherwise the extension of name. Pages
// without text are omitted; the others keep their numbers. The text is valid UTF-8 without control
// characters other than line feed and tab.
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
		return extractPDF(ctx, data)
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

func extractPDF(ctx context.Context, data []byte) ([]Page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, MaxPDFTime, fmt.Errorf("%w: takes more than %v to read", ErrTooLarge, MaxPDFTime))
	defer cancel()
	return contained(ctx, func() ([]Page, error) {
		read, err := pdftext.Pages(ctx, data, MaxTextBytes)
		var pages []Page
		for _, p := range read {
			if text := strings.Join(paragraphs(cleanText(p.Text)), "\n\n"); text != "" {
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
	if pdftext.HasHeader(data) {
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

// declaredFormat returns the format of a media type, or "" for a generic one.
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
