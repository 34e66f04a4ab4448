package pdftext

import (
	"strings"

	"github.com/pdfcpu/pdfcpu/pkg/font"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// textFont maps the codes of a font to text and widths.
type textFont struct {
	// composite reports whether codes have several bytes.
	composite bool
	vertical  bool
	unicode   *charMap
	// legacy decodes the codes of a predefined national encoding.
	legacy encoding.Encoding
	// single maps the codes of a simple font to text.
	single [256]string
	widths map[int]float64
	// fallback is the width of codes without a width, in 1/1000 of the font size.
	fallback float64
}

// font returns the font of a page with a name, or nil.
func (d *document) font(resources types.Dict, name string) *textFont {
	const mostCached = 2000
	o, _ := d.dict(resources["Font"]).Find(name)
	ref, cacheable := o.(types.IndirectRef)
	if f := d.fonts[ref]; cacheable && f != nil {
		return f
	}
	dict := d.dict(o)
	// Fonts that are not indirect objects are loaded at each use.
	if dict == nil || d.ctx.Err() != nil {
		return nil
	}
	f := d.loadFont(dict)
	if len(d.fonts) >= mostCached {
		clear(d.fonts)
	}
	if cacheable {
		d.fonts[ref] = f
	}
	return f
}

func (d *document) loadFont(dict types.Dict) *textFont {
	f := &textFont{widths: make(map[int]float64), fallback: 500}
	// An invalid map is ignored.
	if data, err := d.stream(dict["ToUnicode"]); err == nil && len(data) > 0 {
		f.unicode = parseCharMap(data)
	}
	if d.name(dict["Subtype"]) == "Type0" {
		d.loadComposite(f, dict)
	} else {
		d.loadSimple(f, dict)
	}
	return f
}

func (d *document) loadComposite(f *textFont, dict types.Dict) {
	f.composite = true
	name := d.name(dict["Encoding"])
	f.vertical = strings.HasSuffix(name, "-V")
	f.legacy = legacyEncoding(name)
	f.fallback = 1000
	descendants := d.array(dict["DescendantFonts"])
	if len(descendants) == 0 {
		return
	}
	font := d.dict(descendants[0])
	if w := d.resolve(font["DW"]); w != nil {
		f.fallback = d.number(w)
	}
	d.compositeWidths(f, d.array(font["W"]))
}

// compositeWidths reads groups of the form "first [w w w]" and "first last w".
func (d *document) compositeWidths(f *textFont, w types.Array) {
	const highest, most = 1 << 16, 1 << 18
	writes := 0
	for i := 0; i+1 < len(w) && writes < most; {
		first := int(d.number(w[i]))
		if list, ok := d.resolve(w[i+1]).(types.Array); ok {
			for k, x := range list {
				if c := first + k; 0 <= c && c < highest {
					f.widths[c] = d.number(x)
				}
			}
			writes += len(list)
			i += 2
			continue
		}
		if i+2 >= len(w) {
			return
		}
		last, width := int(d.number(w[i+1])), d.number(w[i+2])
		for c := max(first, 0); c <= min(last, highest-1); c++ {
			f.widths[c] = width
			writes++
		}
		i += 3
	}
}

// legacyEncoding returns the encoding of a predefined character map.
func legacyEncoding(name string) encoding.Encoding {
	switch {
	case strings.Contains(name, "UCS2"), strings.Contains(name, "UTF16"):
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case strings.Contains(name, "RKSJ"):
		return japanese.ShiftJIS
	case strings.HasPrefix(name, "EUC-"):
		return japanese.EUCJP
	case strings.HasPrefix(name, "GBK"), strings.HasPrefix(name, "GB-"):
		return simplifiedchinese.GBK
	case strings.HasPrefix(name, "B5"), strings.HasPrefix(name, "ETen"), strings.HasPrefix(name, "HKscs"):
		return traditionalchinese.Big5
	case strings.HasPrefix(name, "KSC"):
		return korean.EUCKR
	}
	return nil
}

func (d *document) loadSimple(f *textFont, dict types.Dict) {
	enc := d.resolve(dict["Encoding"])
	base := d.name(enc)
	var differences types.Array
	if e, ok := enc.(types.Dict); ok {
		base = d.name(e["BaseEncoding"])
		differences = d.array(e["Differences"])
	}
	f.single = baseEncoding(base)
	d.applyDifferences(f, differences)
	d.simpleWidths(f, dict)
}

func (d *document) applyDifferences(f *textFont, differences types.Array) {
	code := 0
	for _, o := range differences {
		switch o := d.resolve(o).(type) {
		case types.Integer:
			code = int(o)
		case types.Name:
			if 0 <= code && code < len(f.single) {
				f.single[code] = glyphText(d.name(o))
			}
			code++
		}
	}
}

func (d *document) simpleWidths(f *textFont, dict types.Dict) {
	unit := 1.0
	if m := d.array(dict["FontMatrix"]); len(m) == 6 && d.name(dict["Subtype"]) == "Type3" {
		unit = 1000 * d.number(m[0])
	}
	first := int(d.number(dict["FirstChar"]))
	widths := d.array(dict["Widths"])
	for i, w := range widths {
		if c := first + i; 0 <= c && c < 256 {
			f.widths[c] = d.number(w) * unit
		}
	}
	if base := d.name(dict["BaseFont"]); len(widths) == 0 && font.IsCoreFont(base) {
		for c := 32; c < 256; c++ {
			if w, err := font.CharWidth(base, rune(c)); err == nil && w > 0 {
				f.widths[c] = float64(w)
			}
		}
	}
	if w := d.number(d.dict(dict["FontDescriptor"])["MissingWidth"]); w > 0 {
		f.fallback = w * unit
	}
}

// decode returns the text and the width of a shown string, before horizontal scaling.
func (f *textFont) decode(raw []byte, size, charGap, space float64) (string, float64) {
	if f.composite && f.unicode == nil && f.legacy != nil {
		return f.decodeLegacy(raw, size, charGap)
	}
	var b strings.Builder
	width := 0.0
	for len(raw) > 0 {
		code, n := f.nextCode(raw)
		raw = raw[n:]
		b.WriteString(f.textOf(code, n))
		width += f.width(code)/1000*size + charGap
		if n == 1 && code == ' ' {
			width += space
		}
	}
	return b.String(), width
}

func (f *textFont) nextCode(raw []byte) (code, n int) {
	n = 1
	if f.composite {
		n = min(2, len(raw))
		if f.unicode != nil {
			n = f.unicode.codeLength(raw)
		}
	}
	for _, c := range raw[:n] {
		code = code<<8 | int(c)
	}
	return code, n
}

// textOf returns the text of a code, or "" if no map contains it: glyph numbers are not text.
func (f *textFont) textOf(code, n int) string {
	if f.unicode != nil {
		if s, ok := f.unicode.text[charCode{code, n}]; ok {
			return s
		}
	}
	if !f.composite && code < len(f.single) {
		return f.single[code]
	}
	return ""
}

func (f *textFont) width(code int) float64 {
	if w, ok := f.widths[code]; ok {
		return w
	}
	return f.fallback
}

// decodeLegacy decodes a string as if all characters had full width, which is exact enough for the
// layout.
func (f *textFont) decodeLegacy(raw []byte, size, charGap float64) (string, float64) {
	text, err := f.legacy.NewDecoder().Bytes(raw)
	if err != nil {
		return "", 0
	}
	n := float64(len(raw)) / 2
	return string(text), n * (size + charGap)
}
