package a2a

import (
	"fmt"
	"strings"
)

// Problem is a rule that a value breaks. Rule reads on after the path: "rating"
// + " " + "is 6, want 1 to 5".
type Problem struct {
	// Path is the member in its spelling on the wire, with dots and [indices]; ""
	// is the value itself.
	Path string
	Rule string
	// Advice marks what A2A recommends but does not ask for: a server may take the
	// value all the same.
	Advice bool
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Rule
	}
	return p.Path + " " + p.Rule
}

// InvalidError holds every rule that a value breaks, one or more. errors.As finds
// an [*Error] of [CodeInvalid] in it.
type InvalidError struct {
	Problems []Problem
}

// maxTold bounds the text of an InvalidError, in problems.
const maxTold = 20

func (e *InvalidError) Error() string {
	var texts []string
	for _, p := range e.Problems[:min(len(e.Problems), maxTold)] {
		texts = append(texts, p.String())
	}
	if n := len(e.Problems) - maxTold; n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(texts, "; ")
}

// As lets errors.As find the error for the caller: its field is that of the
// first problem, its fields, if there is more than one problem, those of all that
// are told.
func (e *InvalidError) As(target any) bool {
	t, ok := target.(**Error)
	if !ok {
		return false
	}
	*t = Errorf(CodeInvalid, "%s", e.Error())
	(*t).Data = map[string]any{"field": e.Problems[0].Path}
	if len(e.Problems) > 1 {
		var fields []any
		for _, p := range e.Problems[:min(len(e.Problems), maxTold)] {
			fields = append(fields, p.Path)
		}
		(*t).Data["fields"] = fields
	}
	return true
}

// Required returns e without the problems that are [Problem.Advice], nil if it
// has no others.
func (e *InvalidError) Required() error {
	var p Problems
	for _, problem := range e.Problems {
		if !problem.Advice {
			p.list = append(p.list, problem)
		}
	}
	return p.Err()
}

// Problems gathers problems. The zero value is ready for use.
type Problems struct {
	list []Problem
}

// Add notes a problem.
func (p *Problems) Add(path, format string, args ...any) {
	p.list = append(p.list, Problem{Path: path, Rule: fmt.Sprintf(format, args...)})
}

// Advise notes a problem that is [Problem.Advice].
func (p *Problems) Advise(path, format string, args ...any) {
	p.list = append(p.list, Problem{Path: path, Rule: fmt.Sprintf(format, args...), Advice: true})
}

// Check notes a problem unless ok.
func (p *Problems) Check(ok bool, path, format string, args ...any) {
	if !ok {
		p.Add(path, format, args...)
	}
}

// In notes the problems of the member path, as its own Validate returned them.
func (p *Problems) In(path string, err error) {
	switch e := err.(type) { //nolint:errorlint // what Validate returns is not wrapped
	case nil:
	case *InvalidError:
		for _, problem := range e.Problems {
			problem.Path = joinPath(path, problem.Path)
			p.list = append(p.list, problem)
		}
	default:
		p.Add(path, "%v", err)
	}
}

func joinPath(head, tail string) string {
	if head == "" || tail == "" || tail[0] == '[' {
		return head + tail
	}
	return head + "." + tail
}

// Err returns an [*InvalidError], or nil if nothing was noted.
func (p *Problems) Err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &InvalidError{Problems: p.list}
}

// Index returns the path of an element of an array.
func Index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
