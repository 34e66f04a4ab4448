package execagent

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLineReader(t *testing.T) {
	t.Parallel()
	type line struct {
		text string
		long bool
	}
	for _, tt := range []struct {
		in   string
		want []line
	}{
		{"", []line{{"", false}}},
		{"a\nb", []line{{"a", false}, {"b", false}}},
		{"a\r\n\n", []line{{"a", false}, {"", false}, {"", false}}},
		{"12345\n123456\n" + strings.Repeat("x", 100) + "\nend\n", []line{{"12345", false}, {"12345", true}, {"xxxxx", true}, {"end", false}, {"", false}}},
	} {
		for _, size := range []int{16, 4096} {
			r := &lineReader{r: bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(tt.in)), size), limit: 5}
			for i, want := range tt.want {
				got, long, err := r.next()
				if string(got) != want.text || long != want.long {
					t.Errorf("%q line %d = %q %t, want %q %t", tt.in, i, got, long, want.text, want.long)
				}
				if last := i == len(tt.want)-1; last != errors.Is(err, io.EOF) {
					t.Errorf("%q line %d: error %v, want io.EOF only for the last line", tt.in, i, err)
				}
			}
		}
	}
}

func TestIncomplete(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe2\x82": 2, "\xf0\x9f\x98": 3, "\xf0\x9f\x98\x80": 0, "\xff": 0, "\x80\x80\x80\x80": 0, "a\xe2\x82\xac": 0,
	} {
		if got := incomplete([]byte(in)); got != want {
			t.Errorf("incomplete(%q) = %d, want %d", in, got, want)
		}
	}
}
