package cypher

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store/graph"
)

var (
	tck    = flag.String("tck", "", "directory tck of the repository opencypher/openCypher: also run its scenarios")
	update = flag.Bool("update", false, "write the list of scenarios that pass to testdata/tck.txt")
)

// scenario is a test in the form of the openCypher TCK.
type scenario struct {
	name  string // file and scenario, and the number of the example
	steps []scenarioStep
}

type scenarioStep struct {
	text  string
	doc   string     // between """
	table [][]string // cells
}

// readScenarios reads a feature file.
func readScenarios(data []byte, file string) []scenario {
	var background, steps []scenarioStep
	var out []scenario
	var name string
	var examples [][]string
	inExamples, inBackground := false, false
	flush := func() {
		if name != "" {
			out = append(out, expand(file+": "+name, append(slices.Clone(background), steps...), examples)...)
		}
		name, steps, examples, inExamples, inBackground = "", nil, nil, false, false
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		into := &steps
		if inBackground {
			into = &background
		}
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "@"), strings.HasPrefix(line, "Feature:"):
		case strings.HasPrefix(line, "Background:"):
			flush()
			inBackground = true
		case strings.HasPrefix(line, "Scenario"):
			flush()
			_, name, _ = strings.Cut(line, ": ")
		case strings.HasPrefix(line, "Examples:"):
			inExamples = true
		case line == `"""`:
			var doc []string
			for lines.Scan() && strings.TrimSpace(lines.Text()) != `"""` {
				doc = append(doc, lines.Text())
			}
			(*into)[len(*into)-1].doc = strings.Join(doc, "\n")
		case strings.HasPrefix(line, "|"):
			cells := splitCells(line)
			if inExamples {
				examples = append(examples, cells)
			} else {
				last := &(*into)[len(*into)-1]
				last.table = append(last.table, cells)
			}
		default:
			_, text, _ := strings.Cut(line, " ")
			*into = append(*into, scenarioStep{text: text})
		}
	}
	flush()
	return out
}

func splitCells(line string) []string {
	var cells []string
	var cell strings.Builder
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line) && (line[i+1] == '|' || line[i+1] == '\\'):
			i++
			cell.WriteByte(line[i])
		case line[i] == '|':
			cells = append(cells, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			cell.WriteByte(line[i])
		}
	}
	return cells
}

// expand makes a scenario of each example.
func expand(name string, steps []scenarioStep, examples [][]string) []scenario {
	if examples == nil {
		return []scenario{{name, steps}}
	}
	var out []scenario
	for n, example := range examples[1:] {
		var pairs []string
		for i, column := range examples[0] {
			pairs = append(pairs, "<"+column+">", example[i])
		}
		replace := strings.NewReplacer(pairs...).Replace
		s := scenario{name: fmt.Sprintf("%s #%d", name, n+1)}
		for _, step := range steps {
			filled := scenarioStep{text: replace(step.text), doc: replace(step.doc)}
			for _, row := range step.table {
				var cells []string
				for _, c := range row {
					cells = append(cells, replace(c))
				}
				filled.table = append(filled.table, cells)
			}
			s.steps = append(s.steps, filled)
		}
		out = append(out, s)
	}
	return out
}

// run executes a scenario and returns why it fails.
func (s scenario) run(root string) error {
	g := &memory{}
	var params map[string]any
	var result Result
	var failed error
	for _, step := range s.steps {
		switch {
		case step.text == "an empty graph", step.text == "any graph", step.text == "no side effects":
		case strings.HasPrefix(step.text, "the ") && strings.HasSuffix(step.text, " graph"):
			name := strings.Fields(step.text)[1]
			data, err := os.ReadFile(filepath.Join(root, "graphs", name, name+".cypher"))
			if err != nil {
				return err
			}
			if err := g.execute(string(data)); err != nil {
				return err
			}
		case step.text == "having executed:":
			if err := g.execute(step.doc); err != nil {
				return fmt.Errorf("fixture: %w", err)
			}
		case step.text == "parameters are:":
			params = make(map[string]any)
			for _, row := range step.table {
				v, err := value(row[1])
				if err != nil {
					return err
				}
				params[row[0]] = v
			}
		case step.text == "executing query:", step.text == "executing control query:":
			result, failed = g.query(step.doc, params)
		case strings.HasPrefix(step.text, "the result should be"):
			if failed != nil {
				return failed
			}
			if err := g.compare(step, result); err != nil {
				return err
			}
		case strings.Contains(step.text, " should be raised"):
			if err := rejected(step.text, failed); err != nil {
				return err
			}
		default:
			return fmt.Errorf("step is not supported: %s", step.text)
		}
	}
	return nil
}

// rejected checks that a query failed as expected, with a typed error of the right phase.
func rejected(step string, err error) error {
	var e *graph.CypherError
	switch {
	case err == nil:
		return fmt.Errorf("no error, want %s", step)
	case !errors.As(err, &e):
		return fmt.Errorf("error is %w, want a CypherError", err)
	case e.Unsupported && strings.Contains(step, "runtime"):
		return fmt.Errorf("query is not supported: %w", err)
	case e.Unsupported && !strings.Contains(step, "UnknownFunction"):
		return fmt.Errorf("query is not supported: %w", err)
	}
	return nil
}

// value evaluates a constant.
func value(text string) (any, error) {
	r, err := (&memory{}).query("RETURN "+text+" AS v", nil)
	if err != nil {
		return nil, err
	}
	return r.Rows[0][0], nil
}

func (g *memory) compare(step scenarioStep, result Result) error {
	var want, got []string
	anyOrder := strings.Contains(step.text, "ignoring element order")
	for i, row := range step.table {
		if i == 0 {
			if !slices.Equal(row, result.Columns) {
				return fmt.Errorf("columns are %q, want %q", result.Columns, row)
			}
			continue
		}
		for j := range row {
			row[j] = canonical(row[j], anyOrder)
		}
		want = append(want, strings.Join(row, " | "))
	}
	for _, row := range result.Rows {
		var cells []string
		for _, v := range row {
			cells = append(cells, canonical(g.show(v, anyOrder), anyOrder))
		}
		got = append(got, strings.Join(cells, " | "))
	}
	if !strings.Contains(step.text, "in order") {
		slices.Sort(want)
		slices.Sort(got)
	}
	if !slices.Equal(want, got) {
		return fmt.Errorf("rows are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	return nil
}

// canonical parses a value as results show it and writes it with members and labels in order.
func canonical(s string, anyOrder bool) string {
	p := &valueParser{s: s, anyOrder: anyOrder}
	out := p.value()
	if p.space(); p.at != len(p.s) {
		return s
	}
	return out
}

type valueParser struct {
	s        string
	at       int
	anyOrder bool
}

func (p *valueParser) space() {
	for p.at < len(p.s) && p.s[p.at] == ' ' {
		p.at++
	}
}

func (p *valueParser) peek() byte {
	p.space()
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *valueParser) accept(c byte) bool {
	if p.peek() == c {
		p.at++
		return true
	}
	return false
}

func (p *valueParser) value() string {
	switch p.peek() {
	case '(':
		p.at++
		return "(" + p.element(')') + ")"
	case '[':
		p.at++
		if p.peek() == ':' {
			return "[" + p.element(']') + "]"
		}
		var items []string
		for !p.accept(']') && p.at < len(p.s) {
			items = append(items, p.value())
			p.accept(',')
		}
		if p.anyOrder {
			slices.Sort(items)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case '{':
		return p.members()
	case '\'':
		start := p.at
		for p.at++; p.at < len(p.s) && p.s[p.at] != '\''; p.at++ {
			if p.s[p.at] == '\\' {
				p.at++
			}
		}
		p.at++
		return p.s[start:min(p.at, len(p.s))]
	case '<':
		return p.path()
	}
	start := p.at
	for p.at < len(p.s) && !strings.ContainsRune(",]}) ", rune(p.s[p.at])) {
		p.at++
	}
	if p.at == start {
		p.at++
		return "?"
	}
	word := p.s[start:p.at]
	if strings.ContainsAny(word, ".eEN") {
		if f, ok := parseFloat(word); ok {
			return formatFloat(f + 0) // not -0
		}
	}
	return word
}

func (p *valueParser) path() string {
	p.at++
	s := "<"
	for p.at < len(p.s) && !p.accept('>') {
		switch p.peek() {
		case '(', '[':
			s += p.value()
		default:
			s += p.s[p.at : p.at+1]
			if p.s[p.at] == '-' && p.at+1 < len(p.s) && p.s[p.at+1] == '>' {
				p.at++
				s += ">"
			}
			p.at++
		}
	}
	return s + ">"
}

// element parses labels and members.
func (p *valueParser) element(end byte) string {
	var labels []string
	for p.accept(':') {
		start := p.at
		for p.at < len(p.s) && !strings.ContainsRune(": {)]", rune(p.s[p.at])) {
			p.at++
		}
		labels = append(labels, ":"+p.s[start:p.at])
	}
	slices.Sort(labels)
	members := ""
	if p.peek() == '{' {
		members = p.members()
	}
	p.accept(end)
	return join(strings.Join(labels, ""), members)
}

func (p *valueParser) members() string {
	p.at++
	var items []string
	for !p.accept('}') && p.at < len(p.s) {
		p.space()
		start := p.at
		for p.at < len(p.s) && p.s[p.at] != ':' {
			p.at++
		}
		key := p.s[start:p.at]
		p.accept(':')
		items = append(items, key+": "+p.value())
		p.accept(',')
	}
	slices.Sort(items)
	return "{" + strings.Join(items, ", ") + "}"
}

// readFeatures returns the scenarios of a directory.
func readFeatures(t *testing.T, dir string) []scenario {
	t.Helper()
	var out []scenario
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".feature" {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, readScenarios(data, strings.TrimSuffix(filepath.Base(path), ".feature"))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScenarios runs the scenarios of testdata. With -tck it also runs those of the openCypher TCK: the
// scenarios that testdata/tck.txt lists must pass, with all their examples.
func TestScenarios(t *testing.T) {
	t.Parallel()
	own := readFeatures(t, "testdata")
	if len(own) < 50 {
		t.Errorf("found %d scenarios in testdata, want at least 50", len(own))
	}
	for _, s := range own {
		if err := s.run(""); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	if *tck != "" {
		runTCK(t)
	}
}

// unclaimed are groups of which some scenarios pass, but which are about writes, procedures, times and
// subqueries.
var unclaimed = regexp.MustCompile(`^(Call|Create|Delete|Merge|Remove|Set|Temporal|ExistentialSubquery)\d`)

func runTCK(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "tck.txt"))
	if err != nil && !*update {
		t.Fatal(err)
	}
	claimed := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		claimed[strings.TrimSpace(line)] = true
	}
	failed := make(map[string]bool) // by name without example
	passed, groups, all := 0, 0, 0
	for _, s := range readFeatures(t, *tck) {
		all++
		name, _, _ := strings.Cut(s.name, " #")
		if _, known := failed[name]; !known {
			failed[name] = false
		}
		if unclaimed.MatchString(name) {
			failed[name] = true
			continue
		}
		groups++
		err := s.run(*tck)
		if err == nil {
			passed++
			continue
		}
		failed[name] = true
		if claimed[name] && !*update {
			t.Errorf("%s: %v", s.name, err)
		} else {
			t.Logf("not claimed: %s: %v", s.name, err)
		}
	}
	for name := range claimed {
		if _, known := failed[name]; !known && !*update {
			t.Errorf("%s: scenario not found", name)
		}
	}
	t.Logf("%d of %d scenarios in the claimed groups pass; the TCK has %d", passed, groups, all)
	var names []string
	for name, no := range failed {
		if !no {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", "tck.txt"), []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
