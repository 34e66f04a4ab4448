package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	statedDefaults = regexp.MustCompile(`\b[Dd]efaults? (\d[^.;(]*)`)
	statedValue    = regexp.MustCompile(`(\d[\d,]*\d|\d)(?: (ms|s|min|h|days|KiB|MiB|GiB)\b)?`)
)

// The comment of a setting states its default, which only the tag of a field of engine, server, webhook or this package sets.
func TestCommentsStateTheDefaultsOfTheirTags(t *testing.T) {
	t.Parallel()
	type structs map[string]*ast.StructType
	read := func(file string) structs {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		found := make(structs)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = s
				}
			}
			return true
		})
		return found
	}
	engine, server, webhook := read("engine/config.go"), read("server/config.go"), read("webhook/config.go")
	own := read("config.go")
	checked := 0
	check := func(place string, s *ast.StructType, others ...*ast.StructType) {
		var comment string
		var group []*ast.Field // with this comment
		compare := func() {
			var stated []string
			for _, list := range statedDefaults.FindAllStringSubmatch(comment, -1) {
				for _, v := range statedValue.FindAllStringSubmatch(list[1], -1) {
					stated = append(stated, setting(v[1], v[2]))
				}
			}
			for i, f := range group {
				want := defaultOf(f.Names[0].Name, append(others, s)...)
				if len(stated) == 0 || want == "" {
					continue
				}
				checked++
				if got := stated[min(i, len(stated)-1)]; got != want {
					t.Errorf("%s.%s: the comment states the default %s, want %s", place, f.Names[0].Name, got, want)
				}
			}
		}
		for _, f := range s.Fields.List {
			if f.Doc != nil {
				compare()
				comment, group = strings.ReplaceAll(f.Doc.Text(), "\n", " "), nil
			}
			group = append(group, f)
		}
		compare()
	}
	check("engine.Config", engine["Config"])
	check("engine.Limits", engine["Limits"])
	check("server.Config", server["Config"])
	check("webhook.Config", webhook["Config"])
	check("holdfast.Config", own["Config"], engine["Config"], server["Config"])
	check("holdfast.Webhooks", own["Webhooks"], webhook["Config"])
	check("holdfast.Files", own["Files"])
	if checked < 50 {
		t.Errorf("checked %d defaults, want at least 50", checked)
	}
}

// defaultOf returns the tag default of a field in the first struct that sets one.
func defaultOf(name string, in ...*ast.StructType) string {
	for _, s := range in {
		for _, f := range s.Fields.List {
			for _, n := range f.Names {
				if n.Name == name && f.Tag != nil {
					tag, _ := strconv.Unquote(f.Tag.Value)
					return reflect.StructTag(tag).Get("default")
				}
			}
		}
	}
	return ""
}

// setting returns a value of a comment as the tag spells it.
func setting(number, unit string) string {
	number = strings.ReplaceAll(number, ",", "")
	switch unit {
	case "min":
		unit = "m"
	case "days":
		n, _ := strconv.Atoi(number)
		number, unit = strconv.Itoa(24*n), "h"
	}
	return number + unit
}
