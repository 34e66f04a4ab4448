package a2a

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Problem is a violated rule. Rule continues the path: "rating" + " " + "is 6, want 1 to 5".
type Problem struct {
	// Path is the path of the member as on the wire, with dots and [indices]. "" is the value
	// itself.
	Path string
	Rule string
	// Advice marks a recommendation of A2A that is not required. A server may accept the
	// value.
	Advice bool
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Rule
	}
	return p.Path + " " + p.Rule
}

// InvalidError lists the rules that a value violates, at least one. errors.As finds an
// [*Error] with [CodeInvalid] in it.
type InvalidError struct {
	Problems []Problem
}

// maxProblems is the number of problems after which the validation of parts stops, so that its
// memory does not grow with the number of invalid parts.
const maxProblems = 1000

// maxListed is the maximum number of problems in the text of an InvalidError.
const maxListed = 20

func (e *InvalidError) Error() string {
	var texts []string
	for _, p := range e.Problems[:min(len(e.Problems), maxListed)] {
		texts = append(texts, p.String())
	}
	if n := len(e.Problems) - maxListed; n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(texts, "; ")
}

// As lets errors.As find the error for the caller. Data["field"] is the path of the first
// problem. If there are several, Data["fields"] has the paths of all listed problems.
func (e *InvalidError) As(target any) bool {
	t, ok := target.(**Error)
	if !ok {
		return false
	}
	*t = Errorf(CodeInvalid, "%s", e.Error())
	(*t).Data = map[string]any{"field": e.Problems[0].Path}
	if len(e.Problems) > 1 {
		var fields []any
		for _, p := range e.Problems[:min(len(e.Problems), maxListed)] {
			fields = append(fields, p.Path)
		}
		(*t).Data["fields"] = fields
	}
	return true
}

// Required returns e without the problems that are advice, or nil if there are no others.
func (e *InvalidError) Required() error {
	var p Problems
	for _, problem := range e.Problems {
		if !problem.Advice {
			p.list = append(p.list, problem)
		}
	}
	return p.Err()
}

// ParamsError converts an error of decoding params, or of their Validate method, to the error
// for the caller: an [*Error] with [CodeInvalid] that names the member, or nil if all problems
// are advice. Other errors are unchanged.
func ParamsError(err error) error {
	var found *InvalidError
	var e *Error
	var w *wire.Error
	switch {
	case errors.As(err, &found):
		if err = found.Required(); errors.As(err, &e) {
			return e
		}
		return nil
	case errors.As(err, &w) && !w.Syntax:
		return Invalid(cmp.Or(w.Path, "params"), "%s", w.Rule)
	}
	return err
}

// Problems collects problems. The zero value is ready to use.
type Problems struct {
	list []Problem
}

// Add adds a problem.
func (p *Problems) Add(path, format string, args ...any) {
	p.list = append(p.list, Problem{Path: path, Rule: fmt.Sprintf(format, args...)})
}

// Advise adds a problem with [Problem.Advice].
func (p *Problems) Advise(path, format string, args ...any) {
	p.list = append(p.list, Problem{Path: path, Rule: fmt.Sprintf(format, args...), Advice: true})
}

// Check adds a problem unless ok is true.
func (p *Problems) Check(ok bool, path, format string, args ...any) {
	if !ok {
		p.Add(path, format, args...)
	}
}

// In adds the problems that Validate returned for the member at path.
func (p *Problems) In(path string, err error) {
	switch e := err.(type) { //nolint:errorlint // Validate does not wrap its error
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

// Err returns an [*InvalidError], or nil if there are no problems.
func (p *Problems) Err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &InvalidError{Problems: p.list}
}

// Index returns the path of an array element.
func Index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
