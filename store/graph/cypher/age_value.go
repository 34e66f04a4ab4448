package cypher

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// AGEElement is a vertex or an edge of Apache AGE. The ids that AGE has for the element and its ends
// belong to graphs in AGE; the id of the entity or relationship is the property "id".
type AGEElement struct {
	Vertex bool
	// ID is the property "id".
	ID string
}

// AGEPath is a path: vertices and edges in turn.
type AGEPath []AGEElement

// ParseAGE returns the value of a text that Apache AGE returns: as in the results of queries, with
// [AGEElement] and [AGEPath].
func ParseAGE(text string) (any, error) {
	p := &ageParser{s: text}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(p.s) {
		return nil, p.malformed()
	}
	return v, nil
}

type ageParser struct {
	s  string
	at int
}

func (p *ageParser) malformed() error {
	return fmt.Errorf("malformed agtype at byte %d: %.40q", p.at, p.s[min(p.at, len(p.s)):])
}

func (p *ageParser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \n\t\r", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *ageParser) accept(c byte) bool {
	if p.space(); p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

// maxAGEDepth limits the levels of a value.
const maxAGEDepth = 1000

func (p *ageParser) value(depth int) (v any, err error) {
	if depth > maxAGEDepth {
		return nil, p.malformed()
	}
	p.space()
	switch {
	case p.at == len(p.s):
		return nil, p.malformed()
	case p.s[p.at] == '"':
		v, err = p.text()
	case p.accept('['):
		v, err = p.list(depth)
	case p.accept('{'):
		v, err = p.object(depth)
	default:
		v, err = p.word()
	}
	if err != nil {
		return nil, err
	}
	return p.annotated(v)
}

func (p *ageParser) list(depth int) ([]any, error) {
	out := []any{}
	for !p.accept(']') {
		if len(out) > 0 && !p.accept(',') {
			return nil, p.malformed()
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *ageParser) object(depth int) (map[string]any, error) {
	out := make(map[string]any)
	for !p.accept('}') {
		if len(out) > 0 && !p.accept(',') {
			return nil, p.malformed()
		}
		p.space()
		key, err := p.text()
		if err != nil || !p.accept(':') {
			return nil, p.malformed()
		}
		if out[key], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *ageParser) text() (s string, err error) {
	end := p.at + 1
	for end < len(p.s) && p.s[end] != '"' {
		if p.s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(p.s) {
		return "", p.malformed()
	}
	if err := json.Unmarshal([]byte(p.s[p.at:end+1]), &s); err != nil {
		return "", p.malformed()
	}
	p.at = end + 1
	return s, nil
}

func (p *ageParser) word() (any, error) {
	start := p.at
	for p.at < len(p.s) && strings.IndexByte(",]}: ", p.s[p.at]) < 0 {
		p.at++
	}
	switch word := p.s[start:p.at]; word {
	case "null":
		return nil, nil
	case "true", "false":
		return word == "true", nil
	default:
		if i, err := strconv.ParseInt(word, 10, 64); err == nil {
			return i, nil
		}
		f, err := strconv.ParseFloat(word, 64)
		if err != nil {
			p.at = start
			return nil, p.malformed()
		}
		return f, nil
	}
}

// annotated converts a value by the name of the type after it.
func (p *ageParser) annotated(v any) (any, error) {
	rest := p.s[p.at:]
	for name, convert := range map[string]func(any) (any, bool){
		"::vertex": func(v any) (any, bool) { return ageElement(v, true) },
		"::edge":   func(v any) (any, bool) { return ageElement(v, false) },
		"::path":   agePath,
		"::numeric": func(v any) (any, bool) {
			f, ok := toFloat(v)
			return f, ok
		},
	} {
		if strings.HasPrefix(rest, name) {
			p.at += len(name)
			out, ok := convert(v)
			if !ok {
				return nil, p.malformed()
			}
			return out, nil
		}
	}
	return v, nil
}

func ageElement(v any, vertex bool) (any, bool) {
	m, _ := v.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	id, ok := properties[idProperty].(string)
	return AGEElement{Vertex: vertex, ID: id}, ok
}

func agePath(v any) (any, bool) {
	l, ok := v.([]any)
	path := make(AGEPath, len(l))
	for i := range l {
		e, isElement := l[i].(AGEElement)
		ok = ok && isElement
		path[i] = e
	}
	return path, ok
}
