package summarize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pdfcpu/pdfcpu/pkg/filter"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
)

const (
	// MaxPDFTime is the longest that a PDF is worked on, whatever the context
	// allows.
	MaxPDFTime  = 30 * time.Second
	maxPDFPages = 20_000
	// maxStream bounds one decoded stream, maxInterpreted the page content that
	// is run through in all, with forms counted each time they are drawn.
	maxStream      = 32 << 20
	maxInterpreted = 512 << 20
)

// pdfLimits are the limits that tests lower.
type pdfLimits struct {
	// text bounds what is extracted, objectText the decoded object streams,
	// which the library keeps.
	text, objectText int
}

func defaultPDFLimits() pdfLimits { return pdfLimits{text: MaxTextBytes, objectText: 256 << 20} }

// pdfPages extracts the text of a PDF. The library parses objects; what it
// leaves unbounded is bounded here and by [contained]: every byte it reads
// passes a reader with a budget that also fails once the context is done.
func pdfPages(ctx context.Context, data []byte) ([]Page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, MaxPDFTime, fmt.Errorf("%w: takes more than %v to read", ErrTooLarge, MaxPDFTime))
	defer cancel()
	pages, err := contained(ctx, func() ([]Page, error) { return readPDF(ctx, data, defaultPDFLimits()) })
	return pages, pdfError(ctx, err)
}

// pdfError names the class of a failure. Once the context is done, all other
// errors are its consequences.
func pdfError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrTooLarge), errors.Is(err, ErrEncrypted):
		return err
	case errors.Is(err, pdfcpu.ErrWrongPassword), errors.Is(err, pdfcpu.ErrEncrypted),
		errors.Is(err, pdfcpu.ErrOwnerPasswordRequired), errors.Is(err, pdfcpu.ErrPermissionDenied):
		return fmt.Errorf("%w: %w", ErrEncrypted, err)
	case errors.Is(err, pdfcpu.ErrUnsupportedEncryptionFeature):
		return fmt.Errorf("%w: its encryption is not supported: %w", ErrEncrypted, err)
	case errors.Is(err, filter.ErrDecodeLimitExceeded):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

func readPDF(ctx context.Context, data []byte, limits pdfLimits) ([]Page, error) {
	if !looksLikePDF(data) {
		return nil, fmt.Errorf("%w: no PDF header", ErrMalformed)
	}
	rs := &budgetReader{
		Reader: bytes.NewReader(data),
		ctx:    ctx,
		// An object costs one buffer of 4 KiB to read however small it is.
		left: 64<<20 + 24*int64(len(data)),
	}
	c, err := pdfcpu.ReadWithContext(ctx, rs, pdfConfiguration(data))
	if err != nil {
		return nil, err
	}
	d := newPDFDocument(ctx, c.XRefTable, limits)
	root, err := c.Catalog()
	if err != nil {
		return nil, err
	}
	if err := d.walkPages(root["Pages"], pageContext{}, 0); err != nil {
		return nil, err
	}
	if d.objectText > limits.objectText {
		return nil, fmt.Errorf("%w: its objects unpack to more than %d bytes", ErrTooLarge, limits.objectText)
	}
	return d.pages, nil
}

// pdfConfiguration is written out, since the library's default creates a
// directory in the user's home.
func pdfConfiguration(data []byte) *model.Configuration {
	// Each object of an object stream costs memory before it is used: many
	// streams may only have few each.
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

// budgetReader ends loops inside the library: whatever reads over and over runs
// out, as does code that continues to read after the context is done.
type budgetReader struct {
	*bytes.Reader
	ctx  context.Context // the reader lives for one call
	left int64
}

func (r *budgetReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	if r.left <= 0 {
		return 0, fmt.Errorf("%w: its objects overlap or loop", ErrMalformed)
	}
	n, err := r.Reader.Read(p)
	r.left -= int64(n)
	return n, err
}

// WriteTo hides the one of bytes.Reader, which would pass the budget by.
func (r *budgetReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

// pdfDocument resolves objects and collects pages.
type pdfDocument struct {
	ctx  context.Context // the document lives for one call
	xref *model.XRefTable
	// weighed has the object streams in use, whose decoded size objectText is.
	weighed     map[int]bool
	objectText  int
	interpreted int
	textBytes   int
	limits      pdfLimits
	visited     map[types.IndirectRef]bool
	count       int
	pages       []Page
	fonts       map[types.IndirectRef]*pdfFont
}

func newPDFDocument(ctx context.Context, xref *model.XRefTable, limits pdfLimits) *pdfDocument {
	return &pdfDocument{
		ctx:     ctx,
		xref:    xref,
		limits:  limits,
		weighed: make(map[int]bool),
		visited: make(map[types.IndirectRef]bool),
		fonts:   make(map[types.IndirectRef]*pdfFont),
	}
}

// pageContext is what a page inherits from the nodes above it.
type pageContext struct {
	resources types.Object
	rotate    int
}

// walkPages goes through the page tree in order. Nodes seen before are loops.
func (d *pdfDocument) walkPages(o types.Object, inherited pageContext, depth int) error {
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

func (d *pdfDocument) addPage(page types.Dict, inherited pageContext) error {
	d.count++
	if d.count > maxPDFPages {
		return fmt.Errorf("%w: more than %d pages", ErrTooLarge, maxPDFPages)
	}
	content, err := d.content(page["Contents"])
	if err != nil {
		return fmt.Errorf("page %d: %w", d.count, err)
	}
	in := newInterpreter(d, inherited.rotate)
	if err := in.run(content, d.dict(inherited.resources), 0); err != nil {
		return fmt.Errorf("page %d: %w", d.count, err)
	}
	text := strings.Join(paragraphs(cleanText(in.layout.text())), "\n\n")
	if text == "" {
		return nil
	}
	d.textBytes += len(text)
	if d.textBytes > d.limits.text {
		return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, d.limits.text)
	}
	d.pages = append(d.pages, Page{Number: d.count, Text: text})
	return nil
}

// content joins the content streams of a page. A stream that cannot be decoded
// is left out, as viewers do, unless a limit was hit.
func (d *pdfDocument) content(o types.Object) ([]byte, error) {
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
			return nil, fmt.Errorf("%w: more than %d bytes of page content", ErrTooLarge, maxStream)
		}
		out = append(append(out, b...), '\n')
	}
	return out, nil
}

func (d *pdfDocument) stream(o types.Object) ([]byte, error) {
	if err := context.Cause(d.ctx); err != nil {
		return nil, err
	}
	s, ok := d.resolve(o).(types.StreamDict)
	if !ok {
		return nil, nil
	}
	err := s.DecodeWithLimit(maxStream)
	if errors.Is(err, filter.ErrDecodeLimitExceeded) {
		return nil, fmt.Errorf("%w: a stream unpacks to more than %d bytes", ErrTooLarge, maxStream)
	}
	// On other errors, what was decoded up to there is used.
	d.interpreted += len(s.Content)
	if d.interpreted > maxInterpreted {
		return nil, fmt.Errorf("%w: more than %d bytes of page content", ErrTooLarge, maxInterpreted)
	}
	return s.Content, nil
}

// resolve follows references; an object that cannot be read is null, as the
// format demands for missing ones.
func (d *pdfDocument) resolve(o types.Object) types.Object {
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

// affordable weighs the object stream that ref is in before its first use. The
// library decodes it once more, and keeps it.
func (d *pdfDocument) affordable(ref types.IndirectRef) bool {
	e, ok := d.xref.FindTableEntryForIndRef(&ref)
	if !ok || e.ObjectStream == nil || d.weighed[*e.ObjectStream] {
		return d.objectText <= d.limits.objectText
	}
	d.weighed[*e.ObjectStream] = true
	if host, ok := d.xref.Find(*e.ObjectStream); ok {
		if s, ok := host.Object.(types.ObjectStreamDict); ok {
			// An error comes up again when the object is read.
			_ = s.DecodeWithLimit(maxStream)
			d.objectText += len(s.Content)
		}
	}
	return d.objectText <= d.limits.objectText
}

func (d *pdfDocument) dict(o types.Object) types.Dict {
	switch o := d.resolve(o).(type) {
	case types.Dict:
		return o
	case types.StreamDict:
		return o.Dict
	}
	return nil
}

func (d *pdfDocument) array(o types.Object) types.Array {
	a, _ := d.resolve(o).(types.Array)
	return a
}

func (d *pdfDocument) number(o types.Object) float64 {
	switch o := d.resolve(o).(type) {
	case types.Integer:
		return float64(o)
	case types.Float:
		return float64(o)
	}
	return 0
}

func (d *pdfDocument) name(o types.Object) string {
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
