package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// configFlag is the --config flag.
type configFlag struct {
	Config string `placeholder:"FILE" envvar:"HOLDFAST_CONFIG" help:"YAML file with settings: names are the flags of serve without dashes (docs/configuration.md). Flags and variables take precedence."`
}

// configFile is the content of a config file.
type configFile struct {
	name   string
	values map[string]fileValue // by flag name
}

type fileValue struct {
	text string // in the syntax of the flag; the items of a list are separated by commas
	line int
}

// maxConfig is the maximum size of a config file, in bytes.
const maxConfig = 1 << 20

// notSettings are flags of serve that are not allowed in a config file.
var notSettings = []string{"help", "config", "json"}

// loadConfig reads the config file of the command, if any, before the parser resolves flags.
func (a *app) loadConfig(parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil || a.set.file.name != "" {
		return nil
	}
	i := slices.IndexFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "config" })
	if i < 0 {
		return nil
	}
	name := a.env.get(envName(node.Flags[i].Value))
	for _, p := range parsed.Path {
		if p.Flag == node.Flags[i] {
			name, _ = parsed.FlagValue(p.Flag).(string)
		}
	}
	if name == "" {
		return nil
	}
	a.set.file.name = name
	values, err := readConfig(name, a.set.serveFlags)
	if a.set.file.values = values; err != nil {
		a.set.problems = append(a.set.problems, err)
	}
	return nil
}

// flagsOfServe returns the flags of serve that are allowed in a config file.
func flagsOfServe(model *kong.Application) []*kong.Flag {
	var flags []*kong.Flag
	for _, node := range model.Children {
		if node.Name != "serve" {
			continue
		}
		for _, flag := range node.Flags {
			if !slices.Contains(notSettings, flag.Name) {
				flags = append(flags, flag)
			}
		}
	}
	return flags
}

// readConfig reads a config file. Its error lists all problems and contains no values, which may be
// secret.
func readConfig(name string, known []*kong.Flag) (map[string]fileValue, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("--config: %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("--config: %s is larger than the maximum of %d bytes", name, maxConfig)
	}
	root, err := parseYAML(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", name, err)
	}
	if root == nil {
		return nil, nil
	}
	values := map[string]fileValue{}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s, line %d: ", name, key.Line)
		if !slices.ContainsFunc(known, func(f *kong.Flag) bool { return f.Name == key.Value }) {
			errs = append(errs, errors.New(at+unknownSetting(key.Value, known)))
			continue
		}
		if before, ok := values[key.Value]; ok {
			errs = append(errs, fmt.Errorf("%s%s is set twice, first in line %d", at, key.Value, before.line))
			continue
		}
		text, err := flatten(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%s: %w", at, key.Value, err))
			continue
		}
		if text != "" {
			values[key.Value] = fileValue{text: text, line: key.Line}
		}
	}
	return values, errors.Join(errs...)
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// parseYAML returns the mapping of a document, nil for an empty document. Its errors contain the
// line but not the parser's text, which may repeat secrets.
func parseYAML(r io.Reader) (*yaml.Node, error) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(r)
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	if err != nil {
		where := ""
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			where = " near line " + m[1]
		}
		return nil, fmt.Errorf("not YAML%s: want lines such as \"storage: postgres\", with quotes around values that have special characters", where)
	}
	if !errors.Is(decoder.Decode(&more), io.EOF) {
		return nil, errors.New("want one document and nothing after it")
	}
	if root := doc.Content[0]; root.Kind == yaml.MappingNode {
		return root, nil
	}
	return nil, errors.New("want lines such as \"storage: postgres\"")
}

// flatten returns a value in the syntax of a flag.
func flatten(n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", nil
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind == yaml.SequenceNode:
		items := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("want a list of plain values")
			}
			items[i] = item.Value
		}
		return kong.JoinEscaped(items, ','), nil
	}
	return "", errors.New("want a plain value or a list of them")
}

// unknownSetting returns an error text for an unknown setting, with a suggestion if possible.
func unknownSetting(name string, known []*kong.Flag) string {
	text := fmt.Sprintf("unknown setting %q", name)
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	best, distance := "", len(plain)/3+1
	for _, flag := range known {
		for _, variable := range envNames(flag.Value) {
			if strings.EqualFold(variable, name) {
				return fmt.Sprintf("%s: its name in the file is %s", text, flag.Name)
			}
		}
		if d := editDistance(plain, flag.Name); d < distance && !flag.Hidden {
			best, distance = flag.Name, d
		}
	}
	if best != "" {
		text += ", did you mean " + best + "?"
	}
	return text
}

// editDistance returns the Levenshtein distance of a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
