package summarize

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/keywords"
)

func TestSentences(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		text string
		want []string
	}{
		{"empty", "", nil},
		{"blank", " \n\n\t ", nil},
		{"only punctuation", "... !!! — ***", nil},
		{"titles", "Dr. Smith met Mrs. Jones. They talked.", []string{"Dr. Smith met Mrs. Jones.", "They talked."}},
		{"initials", "J. R. R. Tolkien wrote it. C. S. Lewis read it.", []string{"J. R. R. Tolkien wrote it.", "C. S. Lewis read it."}},
		{"latin", "Use a queue, e.g. Kafka, i.e. a log. It lasts.", []string{"Use a queue, e.g. Kafka, i.e. a log.", "It lasts."}},
		{"country inside", "The U.S. Senate met. It voted.", []string{"The U.S. Senate met.", "It voted."}},
		{"country at the end", "He moved to the U.S. The winter was hard.", []string{"He moved to the U.S.", "The winter was hard."}},
		{"time", "We met at 5 p.m. Eastern time. It rained at 6 a.m. The sun came out.", []string{"We met at 5 p.m. Eastern time.", "It rained at 6 a.m.", "The sun came out."}},
		{"company", "Acme Inc. Chairman Bob left Acme Inc. He was tired.", []string{"Acme Inc. Chairman Bob left Acme Inc.", "He was tired."}},
		{"numbers", "See No. 5 and Fig. 3. No. We did not. It is in vol. IV and on pp. 3-4.", []string{"See No. 5 and Fig. 3.", "No.", "We did not.", "It is in vol. IV and on pp. 3-4."}},
		{"no as an answer", "I said no. Nobody laughed.", []string{"I said no.", "Nobody laughed."}},
		{"months", "It was on Jan. 5 and on Dec. 24. Snow fell in Dec. The sun shone.", []string{"It was on Jan. 5 and on Dec. 24.", "Snow fell in Dec.", "The sun shone."}},
		{"decimals", "It rose 3.5 percent to $1.25. Then v2.0.1 of Node.js came.", []string{"It rose 3.5 percent to $1.25.", "Then v2.0.1 of Node.js came."}},
		{"year", "It ended in 1990. The next began in 1991.", []string{"It ended in 1990.", "The next began in 1991."}},
		{"ellipsis goes on", "Wait... and see. Well… maybe not.", []string{"Wait... and see.", "Well… maybe not."}},
		{"ellipsis ends", "He waited… Nobody came. So... He left.", []string{"He waited…", "Nobody came.", "So...", "He left."}},
		{"quote after the stop", `He said, "Go." She went. "Really?" she asked. "Yes!" said he.`, []string{`He said, "Go."`, "She went.", `"Really?" she asked.`, `"Yes!" said he.`}},
		{"bracket after the stop", "(It was late.) We left (by car). Then home.", []string{"(It was late.)", "We left (by car).", "Then home."}},
		{"exclamations", "What?! No way!! Yes.", []string{"What?!", "No way!!", "Yes."}},
		{"etc", "Bring tents, ropes etc. Everybody helps.", []string{"Bring tents, ropes etc.", "Everybody helps."}},
		{"wrapped lines", "The quick brown fox jumps over\nthe lazy dog near the river\nbank. It runs.", []string{"The quick brown fox jumps over the lazy dog near the river bank.", "It runs."}},
		{"hyphenation", "The docu-\nment is state-of-\nthe-art and inter\u00ad\nnational.", []string{"The document is state-of-the-art and international."}},
		{"proper name at the line end", "They all came from the town of\nBerlin and went home very late.", []string{"They all came from the town of Berlin and went home very late."}},
		{"heading above text", "Introduction\nThis is the first sentence of a longer text.\nIt goes on.", []string{"Introduction", "This is the first sentence of a longer text.", "It goes on."}},
		{"list", "Buy:\n- apples\n- pears from\n  the garden\n* nuts", []string{"Buy:", "apples", "pears from the garden", "nuts"}},
		{"numbered list", "1. Open the door.\n2. Go in. Sit down.\n3) Wait\n(a) or go", []string{"1. Open the door.", "2. Go in.", "Sit down.", "3) Wait", "(a) or go"}},
		{"paragraphs", "No end\n\nHere neither\n\nHere. Yes", []string{"No end", "Here neither", "Here.", "Yes"}},
		{"web address", "See https://example.com/a.b?c=d. It works.", []string{"See https://example.com/a.b?c=d.", "It works."}},

		{"German abbreviations", "Das kostet z. B. Geld, d. h. Euro, u.a. Cent. Vgl. Abs. 2 Nr. 3 BGB. Herr Dr. Meier bzw. Frau Prof. Schulz kam.", []string{
			"Das kostet z. B. Geld, d. h. Euro, u.a. Cent.", "Vgl. Abs. 2 Nr. 3 BGB.", "Herr Dr. Meier bzw. Frau Prof. Schulz kam.",
		}},
		{"German ordinals", "Die Mauer fiel nicht am 3. Oktober, und das war im 20. Jahrhundert. Der Vertrag wurde danach in Berlin unterschrieben.", []string{
			"Die Mauer fiel nicht am 3. Oktober, und das war im 20. Jahrhundert.", "Der Vertrag wurde danach in Berlin unterschrieben.",
		}},
		{"German quotes", "Er sagte: „Komm.“ Sie kam. Er rief: »Halt!« Sie blieb.", []string{"Er sagte: „Komm.“", "Sie kam.", "Er rief: »Halt!«", "Sie blieb."}},
		{"German hyphens", "Die Ein- und\nAusfuhr der Donau-\ndampfer und der Nord-\nSüd-Verkehr.", []string{"Die Ein- und Ausfuhr der Donaudampfer und der Nord-Süd-Verkehr."}},
		{"French", "M. Dupont est arrivé. « Bonjour ! » dit-il. « Ça va ? » Elle rit. Mme. Curie sourit, p. ex. hier.", []string{
			"M. Dupont est arrivé.", "« Bonjour ! » dit-il.", "« Ça va ? »", "Elle rit.", "Mme. Curie sourit, p. ex. hier.",
		}},
		{"Spanish", "¿Qué pasa? ¡Nada! El Sr. López vive en EE.UU. desde 1990. La Sra. Gil —¿viene? —preguntó él— no.", []string{
			"¿Qué pasa?", "¡Nada!", "El Sr. López vive en EE.UU. desde 1990.", "La Sra. Gil —¿viene? —preguntó él— no.",
		}},
		{"Japanese", "今日は暑い。明日は雨でしょうか？はい！そうです。", []string{"今日は暑い。", "明日は雨でしょうか？", "はい！", "そうです。"}},
		{"Japanese quotes", "彼は「暑い。」と言った。そして帰った。", []string{"彼は「暑い。」と言った。", "そして帰った。"}},
		{"Japanese wrapped", "今日はとても暑い日でしたが、明\n日は雨です。", []string{"今日はとても暑い日でしたが、明日は雨です。"}},
		{"Chinese", "他说：“你好！”我们走了。真的吗？是的……然后呢。", []string{"他说：“你好！”", "我们走了。", "真的吗？", "是的……然后呢。"}},
		{"Arabic", "كيف حالك؟ أنا بخير. ذهب د. أحمد إلى البيت.", []string{"كيف حالك؟", "أنا بخير.", "ذهب د. أحمد إلى البيت."}},
		{"Hindi", "यह एक वाक्य है। डॉ. शर्मा आए। क्या आप ठीक हैं? हाँ!", []string{"यह एक वाक्य है।", "डॉ. शर्मा आए।", "क्या आप ठीक हैं?", "हाँ!"}},
		{"Russian", "А. С. Пушкин родился в 1799 г. в Москве, т. е. давно. Он жил на ул. Арбат в 1831 г. Потом уехал и т. д. Это всё.", []string{
			"А. С. Пушкин родился в 1799 г. в Москве, т. е. давно.", "Он жил на ул. Арбат в 1831 г.", "Потом уехал и т. д.", "Это всё.",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for i, s := range Sentences(Page{Number: 7, Text: tt.text}) {
				if s.Page != 7 || s.Index != i {
					t.Errorf("Sentences(%q)[%d] is at page %d, index %d, want 7, %d", tt.text, i, s.Page, s.Index, i)
				}
				got = append(got, s.Text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Sentences(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestSentencesCutsEndlessText(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"word ", "x", "漢", "a. b. ", "Dr. ", "1. ", "( ", "…"} {
		text := strings.Repeat(unit, 40_000/len(unit))
		for _, s := range Sentences(Page{Number: 1, Text: text}) {
			if n := len([]rune(s.Text)); n > longestSentence {
				t.Errorf("Sentences(%q repeated) has one of %d characters, want at most %d", unit, n, longestSentence)
			}
		}
	}
}

func TestTokenize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		lang keywords.Language
		want []string
	}{
		{"The engines of the ships' ﬁlters", keywords.English, []string{"engine", "ship", "filter"}},
		{"L’eau d'Europe", keywords.French, []string{"eau", "europe"}},
		{"Internationalisation, internationally", keywords.English, []string{"internat", "internat"}},
		{"компаниями компания", keywords.Russian, []string{"компан", "компан"}},
		{"والكتاب الكتاب", keywords.Arabic, []string{"كتاب", "كتاب"}},
		{"東京都に行く", keywords.Unknown, []string{"東京", "京都", "行く"}},
		{"12 3.5 — !", keywords.English, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tokenize(tt.text, tt.lang).terms); diff != "" {
			t.Errorf("tokenize(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}
