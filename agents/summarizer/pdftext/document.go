package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pdfcpu/pdfcpu/pkg/filter"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"

	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
)

const (
	maxPages      = 20_000
	maxObjectText = 256 << 20
	// maxStream limits the size of a decoded stream, maxInterpreted the size of all interpreted
	// page content. A form counts each time it is drawn.
	maxStream      = 32 << 20
	maxInterpreted = 512 << 20
)

// bounds are the limits that callers and tests set.
type bounds struct {
	// text limits the extracted text, objectText the decoded object streams, which the library
	// keeps in memory.
	text, objectText int
}

// Pages extracts the text of the pages of a PDF, at most maxText bytes. It omits pages without
// text. Once ctx is done, reads fail and Pages returns its cause.
//
// Errors are [summarize.ErrMalformed], [summarize.ErrEncrypted], [summarize.ErrTooLarge] or the cause
// of ctx. Pages is the function PDF of a [summarize.Reader].
func Pages(ctx context.Context, data []byte, maxText int) (pages []summarize.Page, err error) {
	defer func() {
		if p := recover(); p != nil {
			pages, err = nil, fmt.Errorf("%w: its parser failed: %.200v", summarize.ErrMalformed, p)
		}
	}()
	pages, err = read(ctx, data, bounds{text: maxText, objectText: maxObjectText})
	return pages, classify(ctx, err)
}

// classify returns the error of a class for err. Once the context is done, all other errors are its
// consequences.
func classify(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, summarize.ErrMalformed), errors.Is(err, summarize.ErrTooLarge), errors.Is(err, summarize.ErrEncrypted):
		return err
	case errors.Is(err, pdfcpu.ErrWrongPassword), errors.Is(err, pdfcpu.ErrEncrypted),
		errors.Is(err, pdfcpu.ErrOwnerPasswordRequired), errors.Is(err, pdfcpu.ErrPermissionDenied):
		return fmt.Errorf("%w: %w", summarize.ErrEncrypted, err)
	case errors.Is(err, pdfcpu.ErrUnsupportedEncryptionFeature):
		return fmt.Errorf("%w: its encryption is not supported: %w", summarize.ErrEncrypted, err)
	case errors.Is(err, filter.ErrDecodeLimitExceeded):
		return fmt.Errorf("%w: %w", summarize.ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", summarize.ErrMalformed, err)
}

func read(ctx context.Context, data []byte, limits bounds) ([]summarize.Page, error) {
	if !summarize.HasPDFHeader(data) {
		return nil, fmt.Errorf("%w: no PDF header", summarize.ErrMalformed)
	}
	rs := &budgetReader{
		Reader: bytes.NewReader(data),
		ctx:    ctx,
		// Reading an object needs a buffer of 4 KiB, even for a small object.
		left: 64<<20 + 24*int64(len(data)),
	}
	c, err := pdfcpu.ReadWithContext(ctx, rs, configuration(data))
	if err != nil {
		return nil, err
	}
	d := newDocument(ctx, c.XRefTable, limits)
	root, err := c.Catalog()
	if err != nil {
		return nil, err
	}
	if err := d.walkPages(root["Pages"], pageContext{}, 0); err != nil {
		return nil, err
	}
	if d.objectText > limits.objectText {
		return nil, fmt.Errorf("%w: its objects unpack to more than %d bytes", summarize.ErrTooLarge, limits.objectText)
	}
	return d.pages, nil
}

// configuration sets all fields, because the default of the library creates a directory in the
// user's home.
func configuration(data []byte) *model.Configuration {
	// Each object of an object stream needs memory before it is used. So if there are many streams,
	// each may have only a few objects.
	perStream := min(max(4_000_000/(1+bytes.Count(data, []byte("/ObjStm"))), 200), 100_000)
	return &model.Configuration{
		Reader15:       true,
		ValidationMode: model.ValidationRelaxed,
		Eol:            types.EolLF,
		Offline:        true,
		Cmd:            model.EXTRACTCONTENT,
		Limits: model.ResourceLimits{
			MaxStreamBytes:       int64(len(data)),
			MaxDecodeBytes:       maxStream,
			MaxImagePixels:       1,
			MaxImageBytes:        1,
			MaxObjectCount:       1_000_000,
			MaxObjectStreamCount: perStream,
			MaxObjectStreamFirst: int64(32 * perStream),
			MaxXRefEntries:       1_000_000,
			MaxRecursionDepth:    100,
		},
	}
}

// budgetReader ends loops in the library: reads that repeat exhaust the budget, and reads after the
// context is done fail.
type budgetReader struct {
	*bytes.Reader
	ctx  context.Context // for one call
	left int64
}

func (r *budgetReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	if r.left <= 0 {
		return 0, fmt.Errorf("%w: its objects overlap or loop", summarize.ErrMalformed)
	}
	n, err := r.Reader.Read(p)
	r.left -= int64(n)
	return n, err
}

// WriteTo hides the method of bytes.Reader, which would bypass the budget.
func (r *budgetReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

// document resolves objects and collects pages.
type document struct {
	ctx  context.Context // for one call
	xref *model.XRefTable
	// weighed has the object streams that objectText includes with their decoded size.
	weighed     map[int]bool
	objectText  int
	interpreted int
	textBytes   int
	limits      bounds
	visited     map[types.IndirectRef]bool
	count       int
	pages       []summarize.Page
	fonts       map[types.IndirectRef]*textFont
}

func newDocument(ctx context.Context, xref *model.XRefTable, limits bounds) *document {
	return &document{
		ctx:     ctx,
		xref:    xref,
		limits:  limits,
		weighed: make(map[int]bool),
		visited: make(map[types.IndirectRef]bool),
		fonts:   make(map[types.IndirectRef]*textFont),
	}
}

// pageContext has the attributes that a page inherits from its ancestors.
type pageContext struct {
	resources types.Object
	rotate    int
}

// walkPages visits the page tree in order. A node that was visited before is a loop.
func (d *document) walkPages(o types.Object, inherited pageContext, depth int) error {
	const deepest = 64
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	if ref, ok := o.(types.IndirectRef); ok {
		if d.visited[ref] {
			return nil
		}
		d.visited[ref] = true
	}
	node := d.dict(o)
	if node == nil || depth > deepest {
		return nil
	}
	if r := node["Resources"]; r != nil {
		inherited.resources = r
	}
	if r := node["Rotate"]; r != nil {
		inherited.rotate = int(d.number(r))
	}
	kids, ok := d.resolve(node["Kids"]).(types.Array)
	if !ok {
		return d.addPage(node, inherited)
	}
	for _, kid := range kids {
		if err := d.walkPages(kid, inherited, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) addPage(page types.Dict, inherited pageContext) error {
	d.count++
	if d.count > maxPages {
		return fmt.Errorf("%w: more than %d pages", summarize.ErrTooLarge, maxPages)
	}
	content, err := d.content(page["Contents"])
	if err != nil {
		return fmt.Errorf("page %d: %w", d.count, err)
	}
	in := newInterpreter(d, inherited.rotate)
	if err := in.run(content, d.dict(inherited.resources), 0); err != nil {
		return fmt.Errorf("page %d: %w", d.count, err)
	}
	text := strings.TrimSpace(in.layout.text())
	if text == "" {
		return nil
	}
	d.textBytes += len(text)
	if d.textBytes > d.limits.text {
		return fmt.Errorf("%w: more than %d bytes of text", summarize.ErrTooLarge, d.limits.text)
	}
	d.pages = append(d.pages, summarize.Page{Number: d.count, Text: text})
	return nil
}

// content returns the content streams of a page, joined. It omits a stream that cannot be decoded,
// as viewers do, unless a limit was exceeded.
func (d *document) content(o types.Object) ([]byte, error) {
	const mostStreams = 10_000
	parts, ok := d.resolve(o).(types.Array)
	if !ok {
		return d.stream(o)
	}
	var out []byte
	for _, part := range parts[:min(len(parts), mostStreams)] {
		b, err := d.stream(part)
		if err != nil {
			return nil, err
		}
		if len(out)+len(b) > maxStream {
			return nil, fmt.Errorf("%w: more than %d bytes of page content", summarize.ErrTooLarge, maxStream)
		}
		out = append(append(out, b...), '\n')
	}
	return out, nil
}

func (d *document) stream(o types.Object) ([]byte, error) {
	if err := context.Cause(d.ctx); err != nil {
		return nil, err
	}
	s, ok := d.resolve(o).(types.StreamDict)
	if !ok {
		return nil, nil
	}
	err := s.DecodeWithLimit(maxStream)
	if errors.Is(err, filter.ErrDecodeLimitExceeded) {
		return nil, fmt.Errorf("%w: a stream unpacks to more than %d bytes", summarize.ErrTooLarge, maxStream)
	}
	// After other errors, the content decoded so far is used.
	d.interpreted += len(s.Content)
	if d.interpreted > maxInterpreted {
		return nil, fmt.Errorf("%w: more than %d bytes of page content", summarize.ErrTooLarge, maxInterpreted)
	}
	return s.Content, nil
}

// resolve follows references. An object that cannot be read is null, as the PDF specification
// requires for missing objects.
func (d *document) resolve(o types.Object) types.Object {
	const longest = 16
	for range longest {
		ref, ok := o.(types.IndirectRef)
		if !ok {
			return o
		}
		if !d.affordable(ref) {
			return nil
		}
		var err error
		if o, err = d.xref.Dereference(ref); err != nil {
			return nil
		}
	}
	return nil
}

// affordable checks the size of the object stream of ref before its first use. The library decodes
// it again and keeps it in memory.
func (d *document) affordable(ref types.IndirectRef) bool {
	e, ok := d.xref.FindTableEntryForIndRef(&ref)
	if !ok || e.ObjectStream == nil || d.weighed[*e.ObjectStream] {
		return d.objectText <= d.limits.objectText
	}
	d.weighed[*e.ObjectStream] = true
	if host, ok := d.xref.Find(*e.ObjectStream); ok {
		if s, ok := host.Object.(types.ObjectStreamDict); ok {
			// Reading the object returns the same error again.
			_ = s.DecodeWithLimit(maxStream)
			d.objectText += len(s.Content)
		}
	}
	return d.objectText <= d.limits.objectText
}

func (d *document) dict(o types.Object) types.Dict {
	switch o := d.resolve(o).(type) {
	case types.Dict:
		return o
	case types.StreamDict:
		return o.Dict
	}
	return nil
}

func (d *document) array(o types.Object) types.Array {
	a, _ := d.resolve(o).(types.Array)
	return a
}

func (d *document) number(o types.Object) float64 {
	switch o := d.resolve(o).(type) {
	case types.Integer:
		return float64(o)
	case types.Float:
		return float64(o)
	}
	return 0
}

func (d *document) name(o types.Object) string {
	n, ok := d.resolve(o).(types.Name)
	if !ok {
		return ""
	}
	s, err := types.DecodeName(string(n))
	if err != nil {
		return string(n)
	}
	return s
}
