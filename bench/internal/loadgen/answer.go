package loadgen

import (
	"bytes"
	"errors"
	"fmt"
)

// answer has the members of a response that the generator uses. Its byte slices refer to
// the scanned text and contain JSON escapes.
type answer struct {
	rest      bool   // the response has no envelope, and no id
	id        []byte // without quotes
	hasResult bool
	hasError  bool
	errorCode []byte
	errorText []byte

	kind  []byte // result.kind, or the kind in A2A 0.3 for the type of the result
	task  []byte // result.id
	state []byte // result.status.state
	final bool   // result.final
	list  string // the array in the result: inResult, inTasks or inContexts
	items int    // its length
	echo  bool   // the response is a request, because it has params
}

// Positions of a list in a result.
const (
	inResult   = "result"
	inTasks    = "result.tasks"
	inContexts = "result.contexts"
)

var errNotJSON = errors.New("answer is not JSON")

// scan reads one response. It reads only the members of answer and skips the rest without
// validation, at a fraction of the cost of encoding/json.
func (a *answer) scan(text []byte, b Binding) error {
	*a = answer{rest: b == REST10}
	s := scanner{text: text}
	if a.rest {
		a.scanResult(&s)
		a.hasResult = !a.hasError
	} else {
		a.scanEnvelope(&s)
	}
	if b != JSONRPC03 && len(a.kind) == 0 && len(a.state) > 0 {
		a.kind = kindTask
	}
	if s.space(); s.bad || s.at != len(text) {
		return errNotJSON
	}
	return nil
}

// The kinds of A2A 0.3 for the members of A2A 1.0.
var kindTask, kindMessage, kindStatus, kindArtifact = []byte("task"), []byte("message"), []byte("status-update"), []byte("artifact-update")

func (a *answer) scanEnvelope(s *scanner) {
	for more := s.open('{'); more; more = s.more() {
		switch string(s.key()) {
		case "id":
			a.id = s.scalar()
		case "result":
			a.hasResult = true
			a.scanResult(s)
		case "error":
			a.scanError(s)
		case "params":
			a.echo = true
			s.skip()
		default:
			s.skip()
		}
	}
}

func (a *answer) scanResult(s *scanner) {
	if s.next() == '[' {
		a.list, a.items = inResult, s.count()
		return
	}
	if s.next() != '{' {
		s.skip()
		return
	}
	for more := s.open('{'); more; more = s.more() {
		switch string(s.key()) {
		case "kind":
			a.kind = s.scalar()
		case "id":
			a.task = s.scalar()
		case "final":
			a.final = string(s.scalar()) == "true"
		case "status":
			a.scanStatus(s)
		case "tasks":
			a.scanList(s, inTasks)
		case "contexts":
			a.scanList(s, inContexts)
		case "task":
			a.scanItem(s, kindTask)
		case "message":
			a.scanItem(s, kindMessage)
		case "statusUpdate":
			a.scanItem(s, kindStatus)
		case "artifactUpdate":
			a.scanItem(s, kindArtifact)
		case "error":
			a.scanError(s)
		default:
			s.skip()
		}
	}
}

// scanItem reads the only member of a result of A2A 1.0.
func (a *answer) scanItem(s *scanner, kind []byte) {
	a.scanResult(s)
	a.kind = kind
}

func (a *answer) scanList(s *scanner, list string) {
	if s.next() != '[' {
		s.skip()
		return
	}
	a.list, a.items = list, s.count()
}

func (a *answer) scanStatus(s *scanner) {
	if s.next() != '{' {
		s.skip()
		return
	}
	for more := s.open('{'); more; more = s.more() {
		if string(s.key()) == "state" {
			a.state = plainState(s.scalar())
			continue
		}
		s.skip()
	}
}

// plainState returns a state of A2A 1.0 as in A2A 0.3 if it is terminal.
func plainState(state []byte) []byte {
	switch string(state) {
	case "TASK_STATE_COMPLETED":
		return stateCompleted
	case "TASK_STATE_FAILED":
		return stateFailed
	case "TASK_STATE_CANCELED":
		return stateCanceled
	case "TASK_STATE_REJECTED":
		return stateRejected
	}
	return state
}

var stateCompleted, stateFailed, stateCanceled, stateRejected = []byte("completed"), []byte("failed"), []byte("canceled"), []byte("rejected")

func (a *answer) scanError(s *scanner) {
	a.hasError = !bytes.Equal(s.peekScalar(), null)
	if s.next() != '{' {
		s.skip()
		return
	}
	for more := s.open('{'); more; more = s.more() {
		switch string(s.key()) {
		case "code":
			a.errorCode = s.scalar()
		case "message":
			a.errorText = s.scalar()
		default:
			s.skip()
		}
	}
}

// result returns an error if the answer is not a result of the request with id.
func (a *answer) result(id []byte) error {
	switch {
	case a.hasError:
		return fmt.Errorf("error %s: %s", a.errorCode, clip(a.errorText))
	case !a.hasResult:
		return errors.New("answer has neither result nor error")
	case !a.rest && !bytes.Equal(a.id, id):
		return errors.New("answer has another request's id")
	}
	return nil
}

// isTask returns an error if the result is not a Task.
func (a *answer) isTask() error {
	if string(a.kind) != "task" {
		return fmt.Errorf("result is of kind %q, want task", clip(a.kind))
	}
	if len(a.task) == 0 || len(a.state) == 0 {
		return errors.New("task has no id or no state")
	}
	return nil
}

// completed returns an error if the state is not completed.
func (a *answer) completed() error {
	if string(a.state) != "completed" {
		return fmt.Errorf("task is %s, want completed", clip(a.state))
	}
	return nil
}

// clip truncates a text from a server for a report.
func clip(text []byte) []byte {
	const most = 120
	if len(text) > most {
		return text[:most]
	}
	return text
}

var null = []byte("null")

// scanner reads JSON text without allocations. After a syntax error it sets bad, and everything it
// returns is empty.
type scanner struct {
	text []byte
	at   int
	bad  bool
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next returns the first byte of the next token without consuming it.
func (s *scanner) next() byte {
	s.space()
	if s.bad || s.at >= len(s.text) {
		s.bad = true
		return 0
	}
	return s.text[s.at]
}

// open consumes the opening bracket and reports whether an element follows.
func (s *scanner) open(bracket byte) bool {
	if s.next() != bracket {
		s.bad = true
		return false
	}
	s.at++
	if c := s.next(); c == '}' || c == ']' {
		s.at++
		return false
	}
	return !s.bad
}

// more consumes a comma, or the closing bracket and returns false.
func (s *scanner) more() bool {
	c := s.next()
	s.at++
	switch c {
	case ',':
		return true
	case '}', ']':
	default:
		s.bad = true
	}
	return false
}

func (s *scanner) key() []byte {
	key := s.quoted()
	if s.next() != ':' {
		s.bad = true
	}
	s.at++
	return key
}

// quoted consumes a string and returns the text between its quotes.
func (s *scanner) quoted() []byte {
	if s.next() != '"' {
		s.bad = true
		return nil
	}
	start := s.at + 1
	for from := start; ; {
		n := bytes.IndexByte(s.text[from:], '"')
		if n < 0 {
			s.bad = true
			return nil
		}
		end := from + n
		slashes := 0
		for end-slashes > start && s.text[end-slashes-1] == '\\' {
			slashes++
		}
		if from = end + 1; slashes%2 == 0 {
			s.at = from
			return s.text[start:end]
		}
	}
}

// scalar consumes a value and returns it if it is a string, number or literal.
func (s *scanner) scalar() []byte {
	switch s.next() {
	case '"':
		return s.quoted()
	case '{', '[':
		s.skip()
		return nil
	}
	text := s.peekScalar()
	s.at += len(text)
	if len(text) == 0 {
		s.bad = true
	}
	return text
}

// peekScalar returns the next value if it is a number or a literal.
func (s *scanner) peekScalar() []byte {
	if s.next() == 0 {
		return nil
	}
	end := s.at
	for end < len(s.text) && bytes.IndexByte(scalarEnds, s.text[end]) < 0 {
		end++
	}
	return s.text[s.at:end]
}

var scalarEnds = []byte("\"{}[],: \t\r\n")

// skip consumes one value of any kind.
func (s *scanner) skip() {
	if c := s.next(); c != '{' && c != '[' {
		s.scalar()
		return
	}
	depth := 0
	for !s.bad && s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if s.at++; depth == 0 {
			return
		}
	}
	s.bad = true
}

// count consumes an array and returns its length.
func (s *scanner) count() int {
	n := 0
	for more := s.open('['); more; more = s.more() {
		s.skip()
		n++
	}
	return n
}
