package keywords

import "testing"

func TestDetect(t *testing.T) {
	t.Parallel()
	tests := map[string]Language{
		"The cat sat on the mat and it was happy.":                  English,
		"Die Katze saß auf der Matte und war nicht froh.":           German,
		"Le chat était sur le tapis et il n'était pas dans la rue.": French,
		"El gato estaba en la alfombra y no quería salir de casa.":  Spanish,
		"Кот сидел на ковре и не хотел выходить из дома.":           Russian,
		"كانت القطة على السجادة ولم تخرج من البيت في المساء":        Arabic,
		"बिल्ली चटाई पर बैठी थी और वह घर से बाहर नहीं गई":           Hindi,
		"猫はマットの上に座っていた。":                                            Unknown,
		"Zwei": Unknown,
		"":     Unknown,
	}
	for text, want := range tests {
		if got := Detect(text); got != want {
			t.Errorf("Detect(%q) = %q, want %q", text, got, want)
		}
	}
	for _, lang := range languages() {
		if n := len(stopWords()[lang]); n < 100 {
			t.Errorf("%s has %d stop words, want a list", lang, n)
		}
	}
}
