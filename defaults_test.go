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
	checked := 0
	check := func(place string, s *ast.StructType) {
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
				want := defaultOf(f)
				if len(stated) == 0 || want == "" || len(f.Names) == 0 {
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
	for pkg, file := range map[string]string{"holdfast": "config.go", "engine": "engine/config.go", "server": "server/config.go", "webhook": "webhook/config.go"} {
		for name, s := range read(file) {
			check(pkg+"."+name, s)
		}
	}
	if checked < 45 {
		t.Errorf("checked %d defaults, want at least 45", checked)
	}
}

// defaultOf returns the tag default of a field.
func defaultOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, _ := strconv.Unquote(f.Tag.Value)
	return reflect.StructTag(tag).Get("default")
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
