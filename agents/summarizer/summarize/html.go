package summarize

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText returns the prose of an HTML document, with block elements as paragraphs. It reads
// tokens instead of a tree, because the cost of building a tree grows with the nesting, which the
// document determines. It omits headings unless the document has no other text.
func htmlText(source string) (string, error) {
	r := &htmlReader{}
	if err := r.read(source); err != nil {
		return "", err
	}
	if s := r.out.String(); strings.TrimSpace(s) != "" {
		return s, nil
	}
	return r.headings.String(), nil
}

type htmlReader struct {
	out, headings strings.Builder
	// skip is the element that is omitted with its content; depth is the number of its open
	// start tags.
	skip      atom.Atom
	depth     int
	inHeading bool
	pre       int
}

func (r *htmlReader) read(source string) error {
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrMalformed, z.Err())
		case html.StartTagToken:
			r.start(tagOf(z))
		case html.SelfClosingTagToken:
			if a := tagOf(z); breaks(a) != "" {
				r.write(breaks(a))
			}
		case html.EndTagToken:
			r.end(tagOf(z))
		case html.TextToken:
			r.text(string(z.Text()))
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

func tagOf(z *html.Tokenizer) atom.Atom {
	name, _ := z.TagName()
	return atom.Lookup(name)
}

func (r *htmlReader) start(a atom.Atom) {
	if r.skip != 0 {
		if a == r.skip {
			r.depth++
		}
		return
	}
	if skipped(a) {
		r.skip, r.depth = a, 1
		return
	}
	if a == atom.Pre {
		r.pre++
	}
	r.write(breaks(a))
	if breaks(a) == "\n\n" {
		r.inHeading = isHeading(a)
	}
}

func (r *htmlReader) end(a atom.Atom) {
	if r.skip != 0 {
		if a == r.skip {
			r.depth--
		}
		// A head without an end tag ends where the body starts.
		if r.depth == 0 || a == atom.Html {
			r.skip = 0
		}
		return
	}
	if a == atom.Pre {
		r.pre = max(0, r.pre-1)
	}
	r.write(breaks(a))
	if breaks(a) == "\n\n" {
		r.inHeading = false
	}
}

func (r *htmlReader) text(s string) {
	switch {
	case r.skip != 0:
	case r.pre > 0:
		r.write(s)
	default:
		r.write(collapse(s))
	}
}

func (r *htmlReader) write(s string) {
	if r.inHeading {
		r.headings.WriteString(s)
		return
	}
	r.out.WriteString(s)
}

// collapse replaces each run of HTML white space, such as line breaks of the source, by one space.
// A non-breaking space is not HTML white space.
func collapse(s string) string {
	var b strings.Builder
	space := false
	for _, c := range s {
		switch c {
		case ' ', '\n', '\t', '\f', '\r':
			if !space {
				b.WriteByte(' ')
			}
			space = true
		default:
			b.WriteRune(c)
			space = false
		}
	}
	return b.String()
}

func skipped(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Nav, atom.Header, atom.Footer, atom.Noscript, atom.Template, atom.Title,
		atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Select, atom.Button, atom.Textarea, atom.Aside,
		atom.Noframes, atom.Audio, atom.Video, atom.Canvas:
		return true
	}
	return false
}

func isHeading(a atom.Atom) bool {
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// breaks returns the white space that represents the start or end of an element.
func breaks(a atom.Atom) string {
	switch a {
	case atom.Br:
		return "\n"
	case atom.Td, atom.Th:
		return " "
	case atom.Address, atom.Article, atom.Blockquote, atom.Body, atom.Caption, atom.Center, atom.Dd, atom.Details,
		atom.Dialog, atom.Dir, atom.Div, atom.Dl, atom.Dt, atom.Fieldset, atom.Figcaption, atom.Figure,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Head, atom.Hr, atom.Html, atom.Legend, atom.Li,
		atom.Main, atom.Menu, atom.Ol, atom.P, atom.Pre, atom.Section, atom.Summary, atom.Table, atom.Tbody,
		atom.Tfoot, atom.Thead, atom.Tr, atom.Ul:
		return "\n\n"
	}
	return ""
}
