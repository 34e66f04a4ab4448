package summarize

import (
	"iter"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdownText returns the prose of a Markdown document. It omits headings, code, raw HTML and
// front matter. It keeps headings if the document has no other text.
func markdownText(source string) string {
	source = trimFrontMatter(source)
	if s := renderMarkdown(source, false); strings.TrimSpace(s) != "" {
		return s
	}
	return renderMarkdown(source, true)
}

// sections splits a document at blank lines before paragraphs outside of code, since the syntax tree
// of a text is many times as large as the text. Link definitions apply to their section only.
func sections(source string) iter.Seq[string] {
	const usual, longest = 64 << 10, 512 << 10
	return func(yield func(string) bool) {
		start, at := 0, 0
		blank, fence := false, ""
		for line := range strings.SplitAfterSeq(source, "\n") {
			begins := blank && fence == "" && strings.TrimLeft(line, " \t\n") == line && line != ""
			if size := at - start; size >= longest || size >= usual && begins {
				if !yield(source[start:at]) {
					return
				}
				start, fence = at, ""
			}
			at += len(line)
			text := strings.TrimSpace(line)
			blank = text == ""
			switch {
			case fence != "":
				if strings.HasPrefix(text, fence) {
					fence = ""
				}
			case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
				fence = text[:3]
			}
		}
		yield(source[start:])
	}
}

// tameMarkdown limits the parts of the input that have a quadratic cost in goldmark: goldmark
// scans a line once per open quote or list, and a paragraph once per bracket.
func tameMarkdown(source string) string {
	const (
		deepest      = 64
		longest      = 8 << 10
		mostBrackets = 200
	)
	var b strings.Builder
	run, brackets := 0, 0
	for line := range strings.SplitAfterSeq(source, "\n") {
		if strings.TrimSpace(line) == "" {
			run, brackets = 0, 0
		}
		for len(line) > 0 {
			part := line
			if len(line) > longest {
				part = line[:cutPoint(line, longest/4)]
			}
			line = line[len(part):]
			if body := strings.TrimLeft(part, " \t>-+*"); len(part)-len(body) > deepest {
				part = body
			}
			if run+len(part) > longest {
				b.WriteString("\n\n")
				run, brackets = 0, 0
			}
			run += len(part)
			if brackets += strings.Count(part, "["); brackets > mostBrackets {
				part = strings.ReplaceAll(part, "[", "(")
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

func trimFrontMatter(source string) string {
	rest, ok := strings.CutPrefix(source, "---\n")
	if !ok {
		return source
	}
	if _, body, found := strings.Cut(rest, "\n---\n"); found {
		return body
	}
	return source
}

type markdownRenderer struct {
	src      []byte
	headings bool
	out      strings.Builder
}

func renderMarkdown(source string, headings bool) string {
	parser := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
	r := &markdownRenderer{headings: headings}
	for section := range sections(source) {
		r.src = []byte(tameMarkdown(section))
		// Walk returns only errors of the visitor, which has none.
		_ = ast.Walk(parser.Parse(text.NewReader(r.src)), r.visit)
		r.out.WriteString("\n\n")
	}
	return r.out.String()
}

func (r *markdownRenderer) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	switch n := n.(type) {
	case *ast.Heading:
		if !r.headings {
			return ast.WalkSkipChildren, nil
		}
	case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock, *ast.RawHTML, *ast.Image, *extast.TableHeader:
		return ast.WalkSkipChildren, nil
	case *extast.TableCell:
		if !entering {
			r.out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	case *ast.Text:
		r.text(n, entering)
		return ast.WalkContinue, nil
	case *ast.String:
		if entering {
			r.out.Write(n.Value)
		}
		return ast.WalkContinue, nil
	case *ast.AutoLink:
		if entering {
			r.out.Write(n.Label(r.src))
		}
		return ast.WalkContinue, nil
	}
	if n.Type() == ast.TypeBlock {
		r.out.WriteString("\n\n")
	}
	return ast.WalkContinue, nil
}

func (r *markdownRenderer) text(n *ast.Text, entering bool) {
	if !entering {
		return
	}
	r.out.Write(unescapeMarkdown(n.Segment.Value(r.src)))
	switch {
	case n.HardLineBreak():
		r.out.WriteByte('\n')
	case n.SoftLineBreak():
		// In Markdown, line breaks within a paragraph have no meaning.
		r.out.WriteByte(' ')
	}
}

// unescapeMarkdown replaces backslash escapes and entities, which goldmark leaves to its HTML
// renderer.
func unescapeMarkdown(b []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(b)))
}
