package pdftext

import (
	"context"
	"fmt"
	"math"

	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"

	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
)

// matrix is a PDF transformation [a b c d e f].
type matrix [6]float64

func identity() matrix { return matrix{1, 0, 0, 1, 0, 0} }

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// interpreter executes a page's content stream and collects its text.
type interpreter struct {
	doc    *document
	layout layout
	state  textState
	stack  []textState
	// line and text are the text line matrix and the text matrix.
	line, text matrix
	forms      int
	steps      int
}

// textState is the part of the graphics state that q and Q save.
type textState struct {
	ctm                           matrix
	font                          *textFont
	size, leading, charGap, space float64
	scale, rise                   float64
}

type operand struct {
	kind   tokenKind
	text   []byte
	number float64
	// list has the elements of an array.
	list []operand
}

func newInterpreter(doc *document, rotate int) *interpreter {
	return &interpreter{
		doc:   doc,
		state: textState{ctm: rotation(rotate), scale: 1},
		line:  identity(),
		text:  identity(),
	}
}

// rotation returns the matrix that makes a rotated page upright.
func rotation(degrees int) matrix {
	switch (degrees%360 + 360) % 360 {
	case 90:
		return matrix{0, -1, 1, 0, 0, 0}
	case 180:
		return matrix{-1, 0, 0, -1, 0, 0}
	case 270:
		return matrix{0, 1, -1, 0, 0, 0}
	}
	return identity()
}

func (in *interpreter) run(content []byte, resources types.Dict, depth int) error {
	const mostOperands = 64
	l := &lexer{data: content}
	base := len(in.stack)
	var operands []operand
	for {
		if err := in.check(); err != nil {
			return err
		}
		t := l.next()
		switch t.kind {
		case tokenEnd:
			in.restoreTo(base)
			return nil
		case tokenOperator:
			op := string(t.text)
			if op == "ID" {
				l.skipInlineImage()
			} else if err := in.apply(op, operands, resources, depth); err != nil {
				return err
			}
			operands = operands[:0]
			continue
		case tokenMark:
			o, ok := in.composite(l, t)
			if !ok {
				continue
			}
			operands = append(operands, o)
		default:
			operands = append(operands, operand{kind: t.kind, text: t.text, number: t.number})
		}
		if len(operands) > mostOperands {
			operands = append(operands[:0], operands[1:]...)
		}
	}
}

// check also limits the text, because a form may be drawn many times.
func (in *interpreter) check() error {
	const often = 1 << 12
	if in.steps++; in.steps < often {
		return nil
	}
	in.steps = 0
	if in.doc.textBytes+in.layout.size() > in.doc.limits.text {
		return fmt.Errorf("%w: more than %d bytes of text", summarize.ErrTooLarge, in.doc.limits.text)
	}
	return context.Cause(in.doc.ctx)
}

// composite reads an array without nesting, which suffices for show operators, and skips a
// dictionary.
func (in *interpreter) composite(l *lexer, open token) (operand, bool) {
	const longest = 1 << 16
	switch string(open.text) {
	case "[":
		o := operand{kind: tokenMark}
		for {
			t := l.next()
			if t.kind == tokenEnd || t.kind == tokenMark && string(t.text) == "]" || len(o.list) == longest {
				return o, true
			}
			if t.kind == tokenNumber || t.kind == tokenString {
				o.list = append(o.list, operand{kind: t.kind, text: t.text, number: t.number})
			}
		}
	case "<<":
		for depth := 1; depth > 0; {
			t := l.next()
			switch {
			case t.kind == tokenEnd:
				return operand{}, false
			case t.kind == tokenMark && string(t.text) == "<<":
				depth++
			case t.kind == tokenMark && string(t.text) == ">>":
				depth--
			}
		}
		return operand{kind: tokenMark}, true
	}
	return operand{}, false
}

func (in *interpreter) apply(op string, args []operand, resources types.Dict, depth int) error {
	switch op {
	case "q":
		in.save()
	case "Q":
		in.restoreTo(max(0, len(in.stack)-1))
	case "cm":
		in.state.ctm = matrixOf(args).times(in.state.ctm)
	case "BT":
		in.line, in.text = identity(), identity()
	case "Do":
		return in.drawForm(args, resources, depth)
	case "Tf":
		if len(args) >= 2 {
			in.state.font = in.doc.font(resources, string(args[len(args)-2].text))
			in.state.size = args[len(args)-1].number
		}
	default:
		in.applyText(op, args)
	}
	return nil
}

func (in *interpreter) applyText(op string, args []operand) {
	s := &in.state
	switch op {
	case "Td":
		in.moveLine(at(args, 2), at(args, 1))
	case "TD":
		s.leading = -at(args, 1)
		in.moveLine(at(args, 2), at(args, 1))
	case "Tm":
		in.line = matrixOf(args)
		in.text = in.line
	case "T*":
		in.moveLine(0, -s.leading)
	case "TL":
		s.leading = at(args, 1)
	case "Tc":
		s.charGap = at(args, 1)
	case "Tw":
		s.space = at(args, 1)
	case "Tz":
		s.scale = at(args, 1) / 100
	case "Ts":
		s.rise = at(args, 1)
	case "Tj", "TJ":
		in.show(args)
	case "'":
		in.moveLine(0, -s.leading)
		in.show(args)
	case "\"":
		s.space, s.charGap = at(args, 3), at(args, 2)
		in.moveLine(0, -s.leading)
		in.show(args)
	}
}

// at returns the i-th number from the end, or 0.
func at(args []operand, i int) float64 {
	if len(args) < i {
		return 0
	}
	return args[len(args)-i].number
}

func matrixOf(args []operand) matrix {
	if len(args) < 6 {
		return identity()
	}
	var m matrix
	for i := range m {
		m[i] = at(args, 6-i)
	}
	return m
}

func (in *interpreter) save() {
	const deepest = 512
	if len(in.stack) < deepest {
		in.stack = append(in.stack, in.state)
	}
}

func (in *interpreter) restoreTo(height int) {
	if height < len(in.stack) {
		in.state = in.stack[height]
		in.stack = in.stack[:height]
	}
}

func (in *interpreter) moveLine(x, y float64) {
	in.line = matrix{1, 0, 0, 1, x, y}.times(in.line)
	in.text = in.line
}

func (in *interpreter) drawForm(args []operand, resources types.Dict, depth int) error {
	const deepest, most = 8, 5000
	if len(args) == 0 || depth == deepest || in.forms == most {
		return nil
	}
	d := in.doc
	objects := d.dict(resources["XObject"])
	o, _ := objects.Find(string(args[len(args)-1].text))
	form := d.dict(o)
	if form == nil || d.name(form["Subtype"]) != "Form" {
		return nil
	}
	in.forms++
	content, err := d.stream(o)
	if err != nil {
		return err
	}
	if own := d.dict(form["Resources"]); own != nil {
		resources = own
	}
	saved, line, text := in.state, in.line, in.text
	if m := d.array(form["Matrix"]); len(m) == 6 {
		in.state.ctm = matrix{d.number(m[0]), d.number(m[1]), d.number(m[2]), d.number(m[3]), d.number(m[4]), d.number(m[5])}.times(in.state.ctm)
	}
	err = in.run(content, resources, depth+1)
	in.state, in.line, in.text = saved, line, text
	return err
}

func (in *interpreter) show(args []operand) {
	if len(args) == 0 || in.state.font == nil {
		return
	}
	last := args[len(args)-1]
	if last.kind == tokenString {
		in.showString(last.text)
		return
	}
	for _, o := range last.list {
		if o.kind == tokenString {
			in.showString(o.text)
			continue
		}
		in.advance(-o.number / 1000 * in.state.size * in.state.scale)
	}
}

func (in *interpreter) advance(x float64) {
	if in.state.font != nil && in.state.font.vertical {
		in.text = matrix{1, 0, 0, 1, 0, x}.times(in.text)
		return
	}
	in.text = matrix{1, 0, 0, 1, x, 0}.times(in.text)
}

func (in *interpreter) showString(raw []byte) {
	const longest = 1 << 16
	raw = raw[:min(len(raw), longest)]
	in.steps += len(raw) / 16
	s := &in.state
	text, width := s.font.decode(raw, s.size, s.charGap, s.space)
	before := in.text.times(s.ctm)
	in.advance(width * s.scale)
	after := in.text.times(s.ctm)
	if text == "" || math.Abs(before[1]) > math.Abs(before[0]) {
		// Vertical text on an upright page is a stamp or the label of an axis.
		return
	}
	size := math.Abs(s.size) * math.Hypot(before[2], before[3])
	if s.font.vertical {
		// Vertical columns are ordered from right to left; each is one line.
		in.layout.add(text, -before[5], before[4], -after[5], size)
		return
	}
	in.layout.add(text, before[4], before[5], after[4], size)
}
