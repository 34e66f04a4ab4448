package pdftext

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"

	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
)

// pdfBuilder writes small PDF documents, sound and broken ones.
type pdfBuilder struct {
	objects []string
	trailer string
	header  string
}

// add appends an object and returns its number.
func (b *pdfBuilder) add(format string, args ...any) int {
	b.objects = append(b.objects, fmt.Sprintf(format, args...))
	return len(b.objects)
}

// reserve makes room for an object that set fills in later.
func (b *pdfBuilder) reserve() int { return b.add("null") }

func (b *pdfBuilder) set(n int, format string, args ...any) {
	b.objects[n-1] = fmt.Sprintf(format, args...)
}

func (b *pdfBuilder) stream(data []byte, compress bool, dict string) int {
	if compress {
		data = deflate(data)
		dict += " /Filter /FlateDecode"
	}
	return b.add("<< /Length %d %s >>\nstream\n%s\nendstream", len(data), dict, data)
}

func deflate(data []byte) []byte {
	var buf bytes.Buffer
	w := zlib.NewWriter(&buf)
	_, _ = w.Write(data)
	_ = w.Close()
	return buf.Bytes()
}

// bytes writes the file with a cross-reference table; root is the catalog.
func (b *pdfBuilder) bytes(root int) []byte {
	var buf bytes.Buffer
	header := b.header
	if header == "" {
		header = "%PDF-1.7\n"
	}
	buf.WriteString(header)
	offsets := make([]int, len(b.objects))
	for i, o := range b.objects {
		offsets[i] = buf.Len()
		fmt.Fprintf(&buf, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := buf.Len()
	fmt.Fprintf(&buf, "xref\n0 %d\n0000000000 65535 f \n", len(b.objects)+1)
	for _, o := range offsets {
		fmt.Fprintf(&buf, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&buf, "trailer\n<< /Size %d /Root %d 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(b.objects)+1, root, b.trailer, xref)
	return buf.Bytes()
}

const helvetica = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"

// pages adds a page tree with one page for each content and returns the
// catalog.
func (b *pdfBuilder) pages(font string, compress bool, contents ...string) int {
	tree := b.reserve()
	fontRef := b.add("%s", font)
	var kids []string
	for _, c := range contents {
		s := b.stream([]byte(c), compress, "")
		kids = append(kids, fmt.Sprintf("%d 0 R", b.add(
			"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 595 842] /Contents %d 0 R >>", tree, s)))
	}
	b.set(tree, "<< /Type /Pages /Count %d /Kids [%s] /Resources << /Font << /F1 %d 0 R >> >> >>",
		len(contents), strings.Join(kids, " "), fontRef)
	return b.add("<< /Type /Catalog /Pages %d 0 R >>", tree)
}

// textContent sets lines at 12 points with a leading of 14; an empty line makes
// a paragraph.
func textContent(lines ...string) string {
	var b strings.Builder
	b.WriteString("BT /F1 12 Tf 14 TL 72 770 Td\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "(%s) Tj T*\n", strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(l))
	}
	b.WriteString("ET\n")
	return b.String()
}

func simplePDF(compress bool, contents ...string) []byte {
	var b pdfBuilder
	return b.bytes(b.pages(helvetica, compress, contents...))
}

// objectStreamPDF keeps catalog, pages and font in a compressed object stream
// and the cross-reference in a stream, as writers since PDF 1.5 do.
func objectStreamPDF(content string) []byte {
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
		"<< /Type /Page /Parent 2 0 R /Contents 6 0 R /Resources << /Font << /F1 4 0 R >> >> >>",
		helvetica,
	}
	var index, body strings.Builder
	for i, o := range objects {
		fmt.Fprintf(&index, "%d %d ", i+1, body.Len())
		body.WriteString(o + "\n")
	}
	var buf bytes.Buffer
	buf.WriteString("%PDF-1.7\n")
	packed := deflate([]byte(index.String() + body.String()))
	packedAt := buf.Len()
	fmt.Fprintf(&buf, "5 0 obj\n<< /Type /ObjStm /N %d /First %d /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\n",
		len(objects), index.Len(), len(packed), packed)
	contentAt := buf.Len()
	data := deflate([]byte(content))
	fmt.Fprintf(&buf, "6 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\n", len(data), data)
	xrefAt := buf.Len()
	row := func(kind, a, b int) []byte { return []byte{byte(kind), byte(a >> 8), byte(a), byte(b)} }
	rows := row(0, 0, 255)
	for i := range objects {
		rows = append(rows, row(2, 5, i)...)
	}
	rows = append(rows, row(1, packedAt, 0)...)
	rows = append(rows, row(1, contentAt, 0)...)
	rows = append(rows, row(1, xrefAt, 0)...)
	table := deflate(rows)
	fmt.Fprintf(&buf, "7 0 obj\n<< /Type /XRef /Size 8 /W [1 2 1] /Root 1 0 R /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		len(table), table, xrefAt)
	return buf.Bytes()
}

func emptyXRef() *model.XRefTable {
	return &model.XRefTable{Table: map[int]*model.XRefTableEntry{}}
}
