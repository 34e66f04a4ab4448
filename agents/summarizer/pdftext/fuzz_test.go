package pdftext

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
)

func FuzzPages(f *testing.F) {
	f.Add(simplePDF(false, textContent("One.", "", "Two."), textContent("Three.")))
	f.Add(simplePDF(true, textContent("Compressed.")))
	f.Add(objectStreamPDF(textContent("Packed.")))
	f.Add(toUnicodePDF())
	f.Add(formPDF())
	f.Add(encryptedPDF())
	f.Add(loopPDF())
	f.Add(hugeXRefPDF())
	f.Fuzz(func(t *testing.T, data []byte) {
		pages, err := Pages(t.Context(), data, maxText)
		if err != nil && !errors.Is(err, summarize.ErrMalformed) && !errors.Is(err, summarize.ErrTooLarge) && !errors.Is(err, summarize.ErrEncrypted) {
			t.Fatalf("Pages() = %v, want an error of a known class", err)
		}
		last := 0
		for _, p := range pages {
			if p.Number <= last || strings.TrimSpace(p.Text) == "" {
				t.Errorf("page %d with text %q follows page %d", p.Number, p.Text, last)
			}
			last = p.Number
		}
	})
}

// FuzzContent fuzzes the content streams of a PDF, which mutations of whole files rarely reach.
func FuzzContent(f *testing.F) {
	f.Add([]byte("q BT /F1 12 Tf 1 0 0 1 5 5 Tm [(a) -300 <6162>] TJ T* (b) ' ET Q BI ID x EI /Fm Do << /A [ >>"), []byte("begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <00> <7f> <0020> endbfrange"))
	f.Fuzz(func(t *testing.T, content, cmap []byte) {
		in := newInterpreter(newDocument(t.Context(), emptyXRef(), bounds{text: maxText, objectText: maxObjectText}), 0)
		in.state.font = &textFont{composite: true, unicode: parseCharMap(cmap)}
		in.state.size = 10
		if err := in.run(content, nil, 0); err != nil {
			t.Fatalf("run() = %v", err)
		}
	})
}
