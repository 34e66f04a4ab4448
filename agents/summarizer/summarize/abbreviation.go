package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/keywords"
)

// abbreviationKind is the rule that decides whether a full stop after an abbreviation ends a
// sentence.
type abbreviationKind int

const (
	_ abbreviationKind = iota // not an abbreviation
	// alwaysJoins never ends a sentence: "Dr.", "e.g.".
	alwaysJoins
	// joinsNumber ends no sentence if a number follows: "No. 5", "Fig. 3".
	joinsNumber
	// mayEnd ends a sentence if the next word typically starts sentences: "Inc.", "a.m.".
	mayEnd
)

var abbreviations = abbreviationTable(map[abbreviationKind]string{
	alwaysJoins: `
		mr mrs ms mx dr prof rev fr hon pres gov gen col maj capt cpt cmdr lt sgt cpl adm sen rep supt insp messrs mt st ste
		vs cf viz ca approx resp incl excl esp al i.e e.g n.b
		hr hrn fr frl dipl ing mag priv.-doz habil sog bzw vgl evtl ggf inkl exkl zzgl ehem geb gest gez d.h z.b u.a v.a i.d.r s.o s.u m.e
		mme mlle mm mgr me p.ex c.-à-d env
		sra srta dña d.ª ud uds vd vds excmo excma p.ej
		г-н г-жа им проф акад доц т.е т.к т.н ул пр пер
		डॉ श्री सुश्री प्रो`,
	joinsNumber: `
		no nos nr nrn num núm nº fig figs tab abb abs art arts ch chap kap sec sect vol vols bd ed eq eqs ex pp ss ff para pt
		app appx ref refs bl zf ziff rn rdnr lit par cap pág págs рис табл стр гл пп ст № सं
		jan feb mar apr jun jul aug sep sept oct nov dec
		jän okt dez janv févr avr juil déc ene abr ago dic янв фев февр апр авг сент окт нояб дек`,
	mayEnd: `
		inc ltd co corp llc plc bros jr sr esq dept univ assn est ave blvd rd
		u.s u.s.a u.k e.u u.n d.c a.m p.m b.c a.d ph.d m.d b.a m.a
		gmbh jh jhd std mio mrd tsd str
		cie sté av bd
		ee.uu s.a cía
		др пр тыс млн млрд руб коп т.д т.п гг н.э`,
})

func abbreviationTable(lists map[abbreviationKind]string) map[string]abbreviationKind {
	table := make(map[string]abbreviationKind)
	// Sorted, so that a word in two lists always gets the same kind.
	for _, kind := range []abbreviationKind{alwaysJoins, joinsNumber, mayEnd} {
		for word := range strings.FieldsSeq(lists[kind]) {
			if _, ok := table[word]; !ok {
				table[word] = kind
			}
		}
	}
	return table
}

// abbreviated reports whether the full stop after head belongs to an abbreviation, so that the
// sentence continues with after.
func abbreviated(head, after string, lang keywords.Language) bool {
	token := strings.TrimLeft(lastToken(head), "([{\"'„“‘«»¿¡-–—/")
	next := strings.TrimLeft(firstWord(strings.TrimSpace(after)), "([{\"'„“‘«»¿¡")
	if token == "" || next == "" {
		return false
	}
	if isDigits(token) {
		return joinsOrdinal(token, next, lang)
	}
	if utf8.RuneCountInString(token) == 1 {
		return joinsInitial(head, token, next)
	}
	switch kind, known := abbreviations[strings.ToLower(token)]; {
	case kind == alwaysJoins:
		return true
	case kind == joinsNumber:
		// A lower-case "no" is the word, not the abbreviation of number.
		return startsNumber(next) && token != "no"
	case kind == mayEnd:
		return !startsSentence(next)
	case !known && isDotted(token):
		return !startsSentence(next)
	}
	return false
}

// joinsInitial reports whether a single letter is an initial or a shortened word. It is neither
// before a word that starts sentences, nor in a Russian year ("1990 г.").
func joinsInitial(head, token, next string) bool {
	r, _ := utf8.DecodeRuneInString(token)
	if !unicode.IsLetter(r) || keywords.IsCJK(r) {
		return false
	}
	before := lastToken(strings.TrimSpace(head[:len(head)-len(token)]))
	if token == "г" && before != "" && isDigits(strings.Trim(before, "–-")) {
		return startsNumber(next)
	}
	return !startsSentence(next)
}

// joinsOrdinal reports whether the full stop marks a German ordinal: "am 3. Oktober", "im 19.
// Jahrhundert".
func joinsOrdinal(token, next string, lang keywords.Language) bool {
	return lang == keywords.German && len(token) <= 2 && startsUpper(next) && !startsSentence(next)
}

// isDotted reports whether a word consists of letters separated by full stops, such as "U.N" or
// "т.д".
func isDotted(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) < 2 {
		return false
	}
	for _, p := range parts {
		n := utf8.RuneCountInString(p)
		if n == 0 || n > 3 || strings.IndexFunc(p, unicode.IsLetter) < 0 {
			return false
		}
	}
	return true
}

// startsSentence reports whether a capitalized word is so common that, after an abbreviation, it
// probably starts a sentence instead of continuing a name.
func startsSentence(word string) bool {
	word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
	return keywords.Unknown.IsStopWord(strings.ToLower(word))
}

func startsNumber(word string) bool {
	word = strings.TrimLeft(word, "#§(")
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.IsDigit(r) || strings.Trim(word, "IVXLC,.;:)") == "" && word != "I"
}

func lastToken(s string) string {
	i := strings.LastIndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s
	}
	_, size := utf8.DecodeRuneInString(s[i:])
	return s[i+size:]
}
