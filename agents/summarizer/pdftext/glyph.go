package pdftext

import (
	"strconv"
	"strings"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// baseEncoding returns the text of each code in the encoding of a simple font.
func baseEncoding(name string) [256]string {
	table := charmap.Windows1252
	if name == "MacRomanEncoding" {
		table = charmap.Macintosh
	}
	var out [256]string
	for c := 0x20; c < 256; c++ {
		out[c] = clean(string(table.DecodeByte(byte(c))))
	}
	if name != "WinAnsiEncoding" && name != "MacRomanEncoding" {
		// The differences of StandardEncoding, the default, in characters that are frequent in
		// prose.
		for c, s := range map[int]string{
			0x27: "’", 0x60: "‘", 0xa9: "'", 0xaa: "“", 0xab: "«", 0xac: "‹", 0xad: "›", 0xae: "fi", 0xaf: "fl",
			0xb1: "–", 0xb7: "•", 0xb8: "‚", 0xb9: "„", 0xba: "”", 0xbb: "»", 0xbc: "…", 0xd0: "—",
			0xe1: "Æ", 0xe8: "Ł", 0xe9: "Ø", 0xea: "Œ", 0xf1: "æ", 0xf5: "ı", 0xf8: "ł", 0xf9: "ø", 0xfa: "œ", 0xfb: "ß",
		} {
			out[c] = s
		}
	}
	return out
}

// glyphText returns the text of a glyph name by the rules of the Adobe glyph list: "uni20AC",
// "u1F600", "f_i", "eacute", "a.sc".
func glyphText(name string) string {
	const longest = 100
	if len(name) > longest {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		b.WriteString(glyphPart(part))
	}
	return clean(b.String())
}

func glyphPart(name string) string {
	if len(name) == 1 {
		return name
	}
	if s, ok := namedGlyphs[name]; ok {
		return s
	}
	if hex, ok := strings.CutPrefix(name, "uni"); ok && len(hex) >= 4 {
		return hexRune(hex[:4])
	}
	if hex, ok := strings.CutPrefix(name, "u"); ok && len(hex) >= 4 && len(hex) <= 6 {
		return hexRune(hex)
	}
	if n, ok := strings.CutPrefix(name, "afii100"); ok {
		return afiiCyrillic(n)
	}
	for _, a := range accents {
		if base, ok := strings.CutSuffix(name, a.name); ok && len(base) == 1 {
			return norm.NFC.String(base + a.mark)
		}
	}
	return ""
}

func hexRune(hex string) string {
	r, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || r > 0x10ffff {
		return ""
	}
	return string(rune(r))
}

// afiiCyrillic decodes afii10017 to afii10097: the Russian alphabet, with Ё after Е.
func afiiCyrillic(n string) string {
	i, err := strconv.Atoi(n)
	if err != nil {
		return ""
	}
	letter := func(i int, first, io rune) string {
		switch {
		case i == 6:
			return string(io)
		case i > 6:
			i--
		}
		return string(first + rune(i))
	}
	switch {
	case 17 <= i && i <= 49:
		return letter(i-17, 'А', 'Ё')
	case 65 <= i && i <= 97:
		return letter(i-65, 'а', 'ё')
	}
	return ""
}

var accents = []struct{ name, mark string }{
	{"acute", "\u0301"},
	{"grave", "\u0300"},
	{"circumflex", "\u0302"},
	{"dieresis", "\u0308"},
	{"tilde", "\u0303"},
	{"caron", "\u030c"},
	{"cedilla", "\u0327"},
	{"ring", "\u030a"},
	{"macron", "\u0304"},
	{"breve", "\u0306"},
	{"ogonek", "\u0328"},
	{"dotaccent", "\u0307"},
	{"hungarumlaut", "\u030b"},
	{"commaaccent", "\u0326"},
}

// namedGlyphs are the glyph names without a rule.
var namedGlyphs = map[string]string{
	"space": " ", "nbspace": " ", "nonbreakingspace": " ", "exclam": "!", "quotedbl": "\"", "numbersign": "#", "dollar": "$",
	"percent": "%", "ampersand": "&", "quotesingle": "'", "parenleft": "(", "parenright": ")", "asterisk": "*", "plus": "+",
	"comma": ",", "hyphen": "-", "sfthyphen": "\u00ad", "softhyphen": "\u00ad", "minus": "−", "period": ".", "slash": "/",
	"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"colon": ":", "semicolon": ";", "less": "<", "equal": "=", "greater": ">", "question": "?", "at": "@",
	"bracketleft": "[", "backslash": "\\", "bracketright": "]", "asciicircum": "^", "underscore": "_", "grave": "`",
	"braceleft": "{", "bar": "|", "braceright": "}", "asciitilde": "~",
	"exclamdown": "¡", "cent": "¢", "sterling": "£", "currency": "¤", "yen": "¥", "brokenbar": "¦", "section": "§",
	"dieresis": "¨", "copyright": "©", "ordfeminine": "ª", "guillemotleft": "«", "logicalnot": "¬", "registered": "®",
	"degree": "°", "plusminus": "±", "acute": "´", "mu": "µ", "paragraph": "¶", "periodcentered": "·", "ordmasculine": "º",
	"guillemotright": "»", "onequarter": "¼", "onehalf": "½", "threequarters": "¾", "questiondown": "¿",
	"AE": "Æ", "ae": "æ", "Eth": "Ð", "eth": "ð", "multiply": "×", "divide": "÷", "Oslash": "Ø", "oslash": "ø", "Thorn": "Þ",
	"thorn": "þ", "germandbls": "ß", "OE": "Œ", "oe": "œ", "dotlessi": "ı", "Lslash": "Ł", "lslash": "ł", "Dcroat": "Đ", "dcroat": "đ",
	"quoteleft": "‘", "quoteright": "’", "quotesinglbase": "‚", "quotedblleft": "“", "quotedblright": "”", "quotedblbase": "„",
	"guilsinglleft": "‹", "guilsinglright": "›", "dagger": "†", "daggerdbl": "‡", "bullet": "•", "ellipsis": "…",
	"perthousand": "‰", "fraction": "⁄", "Euro": "€", "trademark": "™", "endash": "–", "emdash": "—", "florin": "ƒ",
	"ff": "ff", "fi": "fi", "fl": "fl", "ffi": "ffi", "ffl": "ffl",
	"Alpha": "Α", "Beta": "Β", "Gamma": "Γ", "Delta": "Δ", "Epsilon": "Ε", "Zeta": "Ζ", "Eta": "Η", "Theta": "Θ", "Iota": "Ι",
	"Kappa": "Κ", "Lambda": "Λ", "Mu": "Μ", "Nu": "Ν", "Xi": "Ξ", "Omicron": "Ο", "Pi": "Π", "Rho": "Ρ", "Sigma": "Σ", "Tau": "Τ",
	"Upsilon": "Υ", "Phi": "Φ", "Chi": "Χ", "Psi": "Ψ", "Omega": "Ω",
	"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "iota": "ι",
	"kappa": "κ", "lambda": "λ", "nu": "ν", "xi": "ξ", "omicron": "ο", "pi": "π", "rho": "ρ", "sigma": "σ", "sigma1": "ς", "tau": "τ",
	"upsilon": "υ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
	"infinity": "∞", "notequal": "≠", "lessequal": "≤", "greaterequal": "≥", "approxequal": "≈", "partialdiff": "∂", "summation": "∑",
	"product": "∏", "radical": "√", "integral": "∫", "arrowright": "→", "arrowleft": "←",
}
