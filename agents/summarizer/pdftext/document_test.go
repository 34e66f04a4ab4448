package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
)

const (
	maxText = 20 << 20
	maxTime = 30 * time.Second
)

func page(number int, text string) summarize.Page {
	return summarize.Page{Number: number, Text: text}
}

func TestPagesExtractsText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data []byte
		want []summarize.Page
	}{
		{
			"pages and paragraphs",
			simplePDF(false, textContent("First line of a para-", "graph. It ends.", "", "Second one."), textContent("Page two.")),
			[]summarize.Page{page(1, "First line of a para-\ngraph. It ends.\n\nSecond one."), page(2, "Page two.")},
		},
		{"compressed", simplePDF(true, textContent("Compressed text."), "", textContent("Third page.")), []summarize.Page{page(1, "Compressed text."), page(3, "Third page.")}},
		{"object streams", objectStreamPDF(textContent("In an object stream.")), []summarize.Page{page(1, "In an object stream.")}},
		{"junk before the header", append([]byte("junk\n"), simplePDF(false, textContent("Still read."))...), []summarize.Page{page(1, "Still read.")}},
		{"words parted by kerning", simplePDF(false, "BT /F1 10 Tf [(Hel) 20 (lo) -300 (wor) 10 (ld.)] TJ ET"), []summarize.Page{page(1, "Hello world.")}},
		{"words placed one by one", simplePDF(false, "BT /F1 10 Tf 10 700 Td (One) Tj 25 0 Td (two) Tj ET BT /F1 10 Tf 1 0 0 1 60 700 Tm (three) Tj ET"), []summarize.Page{page(1, "One two three")}},
		{"bold by overprinting", simplePDF(false, "BT /F1 10 Tf 10 700 Td (Bold) Tj ET BT /F1 10 Tf 10.3 700 Td (Bold) Tj ET"), []summarize.Page{page(1, "Bold")}},
		{"heading of another size", simplePDF(false, "BT /F1 18 Tf 10 700 Td (Title) Tj /F1 10 Tf 0 -20 Td (Body.) Tj ET"), []summarize.Page{page(1, "Title\n\nBody.")}},
		{"stamp up the margin", simplePDF(false, "BT /F1 10 Tf 0 1 -1 0 10 10 Tm (STAMP) Tj ET "+textContent("Body.")), []summarize.Page{page(1, "Body.")}},
		{"inline image", simplePDF(false, "BI /W 1 /H 1 ID \x00(((EI EI\n"+textContent("After the image.")), []summarize.Page{page(1, "After the image.")}},
		{"quote operators", simplePDF(false, "BT /F1 10 Tf 12 TL 10 700 Td (One) Tj (two) ' 0 0 (three) \" ET"), []summarize.Page{page(1, "One\ntwo\nthree")}},
		{"octal and named escapes", simplePDF(false, `BT /F1 10 Tf (caf\351 \(x\) \223q\224) Tj ET`), []summarize.Page{page(1, "café (x) “q”")}},
		{"differences", withFont("<< /Type /Font /Subtype /Type1 /BaseFont /X /Encoding << /Differences [1 /eacute /fi /uni4E2D /afii10017 /f_f_i /Zcaron] >> >>", "BT /F1 10 Tf <010203040506> Tj ET"), []summarize.Page{page(1, "éfi中АffiŽ")}},
		{"composite font", toUnicodePDF(), []summarize.Page{page(1, "日本語 fi abc")}},
		{"national encoding", withFont("<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /90ms-RKSJ-H /DescendantFonts [] >>", "BT /F1 10 Tf <93fa967b8cea> Tj ET"), []summarize.Page{page(1, "日本語")}},
		{"form", formPDF(), []summarize.Page{page(1, "Before.\nIn a form.\nAfter.")}},
		{"rotated page", rotatedPDF(), []summarize.Page{page(1, "Rotated page.")}},
		{"unclosed string", simplePDF(false, "BT /F1 10 Tf (Kept.) Tj (lost <"), []summarize.Page{page(1, "Kept.")}},
		{"unclosed hex string", simplePDF(false, "BT /F1 10 Tf (Kept.) Tj <"), []summarize.Page{page(1, "Kept.")}},
		{"damaged compression", damagedPDF(), []summarize.Page{page(1, "Sound page.")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Pages(t.Context(), tt.data, maxText)
			if err != nil {
				t.Fatalf("Pages() = %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Pages() (-want +got):\n%s", diff)
			}
		})
	}
}

func withFont(font, content string) []byte {
	var b pdfBuilder
	return b.bytes(b.pages(font, false, content))
}

func toUnicodePDF() []byte {
	const cmap = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap
1 begincodespacerange <0000> <ffff> endcodespacerange
3 beginbfchar <0001> <65e5> <0002> <672c> <0004> <fb01> endbfchar
2 beginbfrange <0003> <0003> [<8a9e>] <0010> <0013> <0061> endbfrange
endcmap end end`
	var b pdfBuilder
	m := b.stream([]byte(cmap), true, "")
	font := fmt.Sprintf("<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode %d 0 R /DescendantFonts [<< /DW 1000 /W [16 [500 500 500] 1 4 1000] >>] >>", m)
	return b.bytes(b.pages(font, false, "BT /F1 10 Tf [<000100020003> -900 <0004> -400 <001000110012>] TJ ET"))
}

func formPDF() []byte {
	var b pdfBuilder
	form := b.stream([]byte("BT /F1 10 Tf 10 688 Td (In a form.) Tj ET /Fm Do"), true, "/Type /XObject /Subtype /Form /Resources << /Font << /F1 2 0 R >> >>")
	font := b.add(helvetica)
	content := b.stream([]byte("BT /F1 10 Tf 10 700 Td (Before.) Tj ET q /Fm Do Q BT /F1 10 Tf 10 676 Td (After.) Tj ET"), false, "")
	page := b.add("<< /Type /Page /Contents [%d 0 R] /Resources << /Font << /F1 %d 0 R >> /XObject << /Fm %d 0 R >> >> >>", content, font, form)
	tree := b.add("<< /Type /Pages /Count 1 /Kids [%d 0 R] >>", page)
	return b.bytes(b.add("<< /Type /Catalog /Pages %d 0 R >>", tree))
}

func rotatedPDF() []byte {
	var b pdfBuilder
	font := b.add(helvetica)
	content := b.stream([]byte("BT /F1 10 Tf 0 1 -1 0 100 100 Tm (Rotated page.) Tj ET"), false, "")
	page := b.add("<< /Type /Page /Rotate 90 /Contents %d 0 R /Resources << /Font << /F1 %d 0 R >> >> >>", content, font)
	tree := b.add("<< /Type /Pages /Count 1 /Kids [%d 0 R] >>", page)
	return b.bytes(b.add("<< /Type /Catalog /Pages %d 0 R >>", tree))
}

func damagedPDF() []byte {
	var b pdfBuilder
	root := b.pages(helvetica, false, textContent("Sound page."), "x")
	b.set(5, "<< /Length 8 /Filter /FlateDecode >>\nstream\nnot zlib\nendstream")
	return b.bytes(root)
}

func TestPagesRejectsBadDocuments(t *testing.T) {
	t.Parallel()
	sound := simplePDF(true, textContent("Some text."))
	tests := []struct {
		name string
		data []byte
		// want is nil where any outcome but a hang or panic will do.
		want error
	}{
		{"header only", []byte("%PDF-1.7\n"), summarize.ErrMalformed},
		{"no header", []byte("hello"), summarize.ErrMalformed},
		{"empty", nil, summarize.ErrMalformed},
		{"cut short", sound[:60], summarize.ErrMalformed},
		{"no text", simplePDF(false, "0 0 10 10 re f"), nil},
		{"no pages", simplePDF(false), nil},
		{"encrypted", encryptedPDF(), summarize.ErrEncrypted},
		{"page tree loop", loopPDF(), nil},
		{"form loop", formPDF(), nil},
		{"xref loop", bytes.Replace(sound, []byte("/Root"), []byte("/Prev 9 /Root"), 1), nil},
		{"stream bomb", bombPDF(), summarize.ErrTooLarge},
		{"huge xref", hugeXRefPDF(), nil},
		{"deep nesting", withFont(strings.Repeat("[", 100_000), "BT ET"), nil},
		{"deep dictionary", withFont(strings.Repeat("<< /A ", 100_000), "BT ET"), nil},
		{"shared stream", sharedStreamPDF(), nil},
		{"widths over and over", withFont("<< /Type /Font /Subtype /Type0 /DescendantFonts [<< /W ["+strings.Repeat("0 65535 500 ", 50_000)+"] >>] >>", textContent("x")), nil},
		{"map over and over", mapBombPDF(), nil},
		{"self-referring font", withFont("<< /Type /Font /Subtype /Type0 /DescendantFonts [2 0 R] /ToUnicode 2 0 R /W 2 0 R >>", textContent("x")), nil},
		{"absurd numbers", simplePDF(false, "BT /F1 1e308 Tf 1e308 0 0 1e308 1e308 1e308 cm 1e999 Tz (a) Tj 1e308 0 Td (b) Tj ET"), nil},
		{"operators without operands", simplePDF(false, "Q Q cm Tf Td TD Tm Tj TJ ' \" Do Tz BT [ << ] >> ) } /"), nil},
		{"many states", simplePDF(true, strings.Repeat("q ", 200_000)), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := Pages(t.Context(), tt.data, maxText)
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Pages() = %v, want %v", err, tt.want)
			}
			if took := time.Since(start); took > maxTime {
				t.Errorf("Pages() took %v", took)
			}
		})
	}
}

func TestTextIsLimited(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	pages, err := read(t.Context(), formBombPDF(), bounds{text: most, objectText: most})
	if !errors.Is(err, summarize.ErrTooLarge) {
		t.Errorf("read(%d) = %d pages, %v, want %v", most, len(pages), err, summarize.ErrTooLarge)
	}
}

func encryptedPDF() []byte {
	var b pdfBuilder
	root := b.pages(helvetica, false, textContent("Secret."))
	junk := strings.Repeat("ab", 32)
	e := b.add("<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <%s> /U <%s> >>", junk, junk)
	b.trailer = fmt.Sprintf("/Encrypt %d 0 R /ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]", e)
	return b.bytes(root)
}

func loopPDF() []byte {
	var b pdfBuilder
	tree := b.add("<< /Type /Pages /Count 1000000 /Kids [1 0 R 1 0 R 2 0 R] /Parent 1 0 R >>")
	b.add("<< /Type /Pages /Count 5 /Kids 3 0 R >>")
	b.add("[1 0 R 2 0 R 4 0 R]")
	b.add("4 0 R")
	return b.bytes(b.add("<< /Type /Catalog /Pages %d 0 R >>", tree))
}

func bombPDF() []byte {
	return simplePDF(true, textContent("x")+strings.Repeat(" ", maxStream))
}

// formBombPDF draws ten forms that draw ten forms, and so on.
func formBombPDF() []byte {
	var b pdfBuilder
	font := b.add(helvetica)
	last := b.stream([]byte("BT /F1 10 Tf ("+strings.Repeat("boom ", 1000)+") Tj ("+strings.Repeat("bang ", 1000)+") Tj ET"), true,
		fmt.Sprintf("/Type /XObject /Subtype /Form /Resources << /Font << /F1 %d 0 R >> >>", font))
	for range 6 {
		last = b.stream([]byte(strings.Repeat("/Fm Do ", 10)), true,
			fmt.Sprintf("/Type /XObject /Subtype /Form /Resources << /XObject << /Fm %d 0 R >> >>", last))
	}
	content := b.stream([]byte("/Fm Do"), false, "")
	page := b.add("<< /Type /Page /Contents %d 0 R /Resources << /XObject << /Fm %d 0 R >> >> >>", content, last)
	tree := b.add("<< /Type /Pages /Count 1 /Kids [%s] >>", strings.Repeat(fmt.Sprintf("%d 0 R ", page), 1))
	return b.bytes(b.add("<< /Type /Catalog /Pages %d 0 R >>", tree))
}

// sharedStreamPDF has thousands of objects at the place of one long stream.
func sharedStreamPDF() []byte {
	const objects = 5000
	head := "%PDF-1.7\n"
	buf := bytes.NewBufferString(head)
	fmt.Fprintf(buf, "1 0 obj\n<< /Length 1000000 >>\nstream\n%s\nendstream\nendobj\n", strings.Repeat("x", 1_000_000))
	xref := buf.Len()
	fmt.Fprintf(buf, "xref\n0 %d\n0000000000 65535 f \n", objects+1)
	buf.WriteString(strings.Repeat(fmt.Sprintf("%010d 00000 n \n", len(head)), objects))
	fmt.Fprintf(buf, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", objects+1, xref)
	return buf.Bytes()
}

func mapBombPDF() []byte {
	var b pdfBuilder
	m := b.stream([]byte(strings.Repeat("1 beginbfrange <0000> <ffff> <0041> endbfrange ", 50_000)), true, "")
	font := fmt.Sprintf("<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode %d 0 R >>", m)
	return b.bytes(b.pages(font, true, "BT /F1 10 Tf <"+strings.Repeat("0001", 100_000)+"> Tj ET"))
}

func hugeXRefPDF() []byte {
	table := deflate(make([]byte, 1000))
	head := "%PDF-1.7\n"
	return fmt.Appendf(nil, "%s1 0 obj\n<< /Type /XRef /Size 999999999999 /Index [0 999999999999] /W [1 2 1] /Root 1 0 R /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		head, len(table), table, len(head))
}

func TestPagesStopsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Pages(ctx, simplePDF(false, textContent("x")), maxText); !errors.Is(err, cause) {
		t.Errorf("Pages(cancelled) = %v, want %v", err, cause)
	}
	data := slowPDF()
	ctx, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer stop()
	start := time.Now()
	_, err := Pages(ctx, data, maxText)
	if took := time.Since(start); !errors.Is(err, cause) || took > maxTime/2 {
		t.Errorf("Pages(50 ms) = %v after %v, want %v soon", err, took, cause)
	}
}

// slowPDF draws much of nothing on many pages.
func slowPDF() []byte {
	const pages = 300
	var b pdfBuilder
	content := b.stream([]byte(strings.Repeat("q Q ", 400_000)), true, "")
	var kids strings.Builder
	for range pages {
		fmt.Fprintf(&kids, "%d 0 R ", b.add("<< /Type /Page /Contents %d 0 R >>", content))
	}
	tree := b.add("<< /Type /Pages /Count %d /Kids [%s] >>", pages, kids.String())
	return b.bytes(b.add("<< /Type /Catalog /Pages %d 0 R >>", tree))
}

// Object streams stay decoded, so a PDF with streams that are large in total is refused.
func TestObjectStreamsAreLimited(t *testing.T) {
	t.Parallel()
	const streams = 12
	var buf bytes.Buffer
	buf.WriteString("%PDF-1.7\n")
	var rows, kids []byte
	row := func(kind, a, b int) { rows = append(rows, byte(kind), byte(a>>16), byte(a>>8), byte(a), byte(b)) }
	row(0, 0, 255)
	add := func(format string, args ...any) {
		row(1, buf.Len(), 0)
		fmt.Fprintf(&buf, format, args...)
	}
	for i := range streams {
		kids = fmt.Appendf(kids, "%d 0 R ", 3+streams+i)
	}
	add("1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n")
	add("2 0 obj\n<< /Type /Pages /Kids [%s] >>\nendobj\n", kids)
	for i := range streams {
		index := fmt.Sprintf("%d 0 ", 3+streams+i)
		body := deflate([]byte(index + "<< /Type /Page >>" + strings.Repeat(" ", 1<<20)))
		add("%d 0 obj\n<< /Type /ObjStm /N 1 /First %d /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\n", 3+i, len(index), len(body), body)
	}
	for i := range streams {
		row(2, 3+i, 0)
	}
	at := buf.Len()
	row(1, at, 0)
	n := len(rows) / 5
	fmt.Fprintf(&buf, "%d 0 obj\n<< /Type /XRef /Size %d /W [1 3 1] /Root 1 0 R /Length %d >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", n-1, n, len(rows), rows, at)
	_, err := read(t.Context(), buf.Bytes(), bounds{text: 1 << 20, objectText: 5 << 20})
	if !errors.Is(err, summarize.ErrTooLarge) {
		t.Errorf("read(5 MB) = %v, want %v", err, summarize.ErrTooLarge)
	}
}

func BenchmarkPages(b *testing.B) {
	contents := make([]string, 200)
	for i := range contents {
		lines := make([]string, 40)
		for k := range lines {
			lines[k] = fmt.Sprintf("Page %d has a line %d of about a dozen words, which ends here.", i, k)
		}
		contents[i] = textContent(lines...)
	}
	data := simplePDF(true, contents...)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Pages(b.Context(), data, maxText); err != nil {
			b.Fatal(err)
		}
	}
}
