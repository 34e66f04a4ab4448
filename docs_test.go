package holdfast_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
)

var updatePages = flag.Bool("update", false, "rewrite the generated parts of documents")

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestProtocolPageListsEveryMethodAndError(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/protocol.md")
	for _, m := range a2a.Methods() {
		if !strings.Contains(page, "`"+m.Name+"`") {
			t.Errorf("docs/protocol.md does not name %s", m.Name)
		}
	}
	rows := 0
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "-32") {
			continue
		}
		rows++
		code := a2a.Code(strings.Trim(strings.TrimSpace(cells[2]), "`"))
		if got := strings.TrimSpace(cells[1]); got != strconv.Itoa(code.JSONRPC()) || strings.TrimSpace(cells[3]) != strconv.Itoa(code.HTTPStatus()) ||
			strings.TrimSpace(cells[4]) != strconv.Itoa(code.ExitCode()) || (strings.TrimSpace(cells[5]) == "yes") != code.Retryable() {
			t.Errorf("docs/protocol.md: row of %s differs from the table of codes: %s", code, line)
		}
	}
	if rows != len(a2a.Codes()) {
		t.Errorf("docs/protocol.md has %d errors, want %d", rows, len(a2a.Codes()))
	}
}

// TestBackendsPageListsEveryTable compares the tables that docs/backends.md names in its two tables of the layout with the
// schemas.
func TestBackendsPageListsEveryTable(t *testing.T) {
	t.Parallel()
	page := strings.Split(read(t, "docs/backends.md"), "| Table | Rows |")
	if len(page) != 3 {
		t.Fatalf("docs/backends.md has %d tables of the layout, want the tables of SQLite and PostgreSQL", len(page)-1)
	}
	for i, dir := range []string{"sqlite", "postgres"} {
		files, err := filepath.Glob("backend/" + dir + "/migrations/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("migrations of %s = %v, %v", dir, files, err)
		}
		layout, _, _ := strings.Cut(page[i+1], "\n\n")
		listed, made := make(map[string]bool), map[string]bool{"schema_migrations": true} // made by internal/migrate
		for _, row := range strings.Split(layout, "\n") {
			if cells := strings.Split(row, "|"); len(cells) > 2 {
				for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[1], -1) {
					listed[name[1]] = true
				}
			}
		}
		for _, file := range files {
			for _, name := range regexp.MustCompile(`(?m)^CREATE (?:VIRTUAL )?TABLE (?:\{s\}\.)?(\w+)`).FindAllStringSubmatch(read(t, file), -1) {
				made[name[1]] = true
			}
		}
		for name := range made {
			if !listed[name] {
				t.Errorf("docs/backends.md: layout of %s lacks table %s", dir, name)
			}
		}
		for name := range listed {
			if !made[name] {
				t.Errorf("docs/backends.md: layout of %s has %s, want only tables of the schema", dir, name)
			}
		}
	}
}

func TestDependenciesPageListsEveryDirectModule(t *testing.T) {
	t.Parallel()
	page, mod := read(t, "docs/dependencies.md"), read(t, "go.mod")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(mod, -1) {
		if !strings.Contains(page, "| "+m[1]+" |") {
			t.Errorf("docs/dependencies.md has no row for %s", m[1])
		}
	}
}

// documents returns the paths of the README, the changelog and all files in docs/.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, "README.md", "CHANGELOG.md", "bench/README.md")
}

func TestDocumentLinksResolve(t *testing.T) {
	t.Parallel()
	anchors := func(page string) map[string]bool {
		found := make(map[string]bool)
		for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(read(t, page), -1) {
			kept := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
			found[strings.ReplaceAll(kept, " ", "-")] = true
		}
		return found
	}
	for _, page := range documents(t) {
		for _, link := range regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`).FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			target := page
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(page), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: no such file", page, link[1])
			} else if link[2] != "" && !anchors(target)[link[2]] {
				t.Errorf("%s: link to %s: no heading #%s", page, target, link[2])
			}
		}
	}
}

// TestDocumentsNameExistingTests checks each test that a document names, as `TestName` or, with its
// directory, as `engine.TestName`.
func TestDocumentsNameExistingTests(t *testing.T) {
	t.Parallel()
	declared := make(map[string]bool) // "TestName" and "dir.TestName"
	walkGo(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, file), -1) {
			declared[f[1]] = true
			declared[filepath.ToSlash(filepath.Dir(file))+"."+f[1]] = true
		}
	})
	named := 0
	for _, page := range documents(t) {
		for _, name := range regexp.MustCompile("`((?:[\\w/]+\\.)?Test[A-Z]\\w*)`").FindAllStringSubmatch(read(t, page), -1) {
			named++
			if !declared[name[1]] {
				t.Errorf("%s names %s: no such test", page, name[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("found %d names of tests, want at least the 10 of the README", named)
	}
}

// TestDocumentsNameExistingFiles checks each path that a document names, such as `engine/slots.go`.
func TestDocumentsNameExistingFiles(t *testing.T) {
	t.Parallel()
	for _, page := range documents(t) {
		for _, name := range regexp.MustCompile("`(\\w[\\w./-]*/[\\w.-]+\\.(?:go|sql|sh|py|js|conf|yaml|md|txt))`").FindAllStringSubmatch(read(t, page), -1) {
			_, err := os.Stat(name[1])
			if _, relativeErr := os.Stat(filepath.Join(filepath.Dir(page), name[1])); err != nil && relativeErr != nil {
				t.Errorf("%s names %s: no such file", page, name[1])
			}
		}
	}
}

// TestOperationsPageQuotesExistingMessages checks that the code contains the log lines and messages that the tables of
// docs/operations.md quote. An ellipsis stands for anything, N and M for numbers.
func TestOperationsPageQuotesExistingMessages(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	walkGo(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			code.WriteString(read(t, file))
		}
	})
	page, quoted := read(t, "docs/operations.md"), 0
	for _, head := range []string{"| Line |", "| Message |"} {
		_, table, found := strings.Cut(page, head)
		if !found {
			t.Fatalf("docs/operations.md has no table with the column %s", head)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for _, row := range strings.Split(table, "\n")[2:] {
			for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, " | ")[0], -1) {
				for _, part := range strings.Split(span[1], "...") {
					if part = strings.TrimSpace(part); len(part) < 6 {
						continue
					}
					quoted++
					form := regexp.MustCompile(`\b(?:N|M|\d+)\b`).ReplaceAllString(regexp.QuoteMeta(part), `(?:$0|%[dsv])`)
					if !regexp.MustCompile(form).MatchString(code.String()) {
						t.Errorf("docs/operations.md quotes %q, which no Go file contains", part)
					}
				}
			}
		}
	}
	if quoted < 15 {
		t.Errorf("found %d quoted messages, want at least 15", quoted)
	}
}

// TestDocumentsNameExistingIdentifiers checks each Go name that a document qualifies with a package or type of
// this module, such as `store.Change` and `Turn.History`.
func TestDocumentsNameExistingIdentifiers(t *testing.T) {
	t.Parallel()
	declared, qualifiers := goNames(t)
	named := 0
	for _, page := range documents(t) {
		for _, span := range regexp.MustCompile("`([A-Za-z]\\w*(?:\\.[A-Z]\\w*)+)(?:\\([^`]*\\))?`").FindAllStringSubmatch(read(t, page), -1) {
			qualifier, _, _ := strings.Cut(span[1], ".")
			if !qualifiers[qualifier] || strings.Contains(span[1], ".Test") {
				continue
			}
			named++
			if !declared[span[1]] {
				t.Errorf("%s names %s: no such identifier", page, span[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("found %d Go names in the documents, want at least 50", named)
	}
}

// goNames returns the exported names of the module as pkg.Name, Type.Member and pkg.Type.Member, and the packages
// and types that qualify them.
func goNames(t *testing.T) (declared, qualifiers map[string]bool) {
	t.Helper()
	declared, qualifiers = make(map[string]bool), make(map[string]bool)
	walkGo(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg := f.Name.Name
		qualifiers[pkg] = true
		member := func(typ, name string) {
			qualifiers[typ] = true
			declared[typ+"."+name], declared[pkg+"."+typ+"."+name] = true, true
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					declared[pkg+"."+d.Name.Name] = true
				} else if typ := receiver(d.Recv.List[0].Type); typ != "" {
					member(typ, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							declared[pkg+"."+name.Name] = true
						}
					case *ast.TypeSpec:
						declared[pkg+"."+spec.Name.Name] = true
						ast.Inspect(spec.Type, func(n ast.Node) bool {
							if field, ok := n.(*ast.Field); ok {
								for _, name := range field.Names {
									member(spec.Name.Name, name.Name)
								}
							}
							return true
						})
					}
				}
			}
		}
	})
	return declared, qualifiers
}

// receiver returns the name of a method's receiver type.
func receiver(typ ast.Expr) string {
	switch typ := typ.(type) {
	case *ast.StarExpr:
		return receiver(typ.X)
	case *ast.IndexExpr:
		return receiver(typ.X)
	case *ast.IndexListExpr:
		return receiver(typ.X)
	case *ast.Ident:
		return typ.Name
	}
	return ""
}

// walkGo calls visit with the path of every Go file of the repository.
func walkGo(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The pages that a newcomer reads first are short, and their lines fit an editor.
func TestDesignPagesFitAScreen(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("found %d pages, %v, want at least 10", len(pages), err)
	}
	for _, page := range append(pages, "docs/design.md", tourPage) {
		for i, line := range strings.Split(read(t, page), "\n") {
			if n := utf8.RuneCountInString(line); n > 120 && !strings.HasPrefix(strings.TrimSpace(line), "|") {
				t.Errorf("%s:%d has %d characters, want at most 120", page, i+1, n)
			}
		}
	}
	if n := strings.Count(read(t, "docs/design.md"), "\n"); n > 50 {
		t.Errorf("docs/design.md has %d lines, want at most 50", n)
	}
	tour := regexp.MustCompile(`(?s)<!-- \w+ -->.*?<!-- end -->`).ReplaceAllString(read(t, tourPage), "")
	if n := len(strings.Fields(tour)); n > 1500 {
		t.Errorf("%s has %d words without its lists of files, want at most 1500", tourPage, n)
	}
}

// writeSection compares the section of a page, between the comments "name" and "end", with the text that was made
// from the code. -update rewrites it.
func writeSection(t *testing.T, page, name, want string) {
	t.Helper()
	head, foot := "<!-- "+name+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(read(t, page), head)
	got, after, ok2 := strings.Cut(rest, foot)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s lacks %q or %q", page, head, foot)
	case got == want:
	case !*updatePages:
		t.Errorf("the section %q of %s differs from the code (run go test . -run %s -update):\n%s", name, page, t.Name(), cmp.Diff(got, want))
	default:
		if err := os.WriteFile(page, []byte(before+head+want+foot+after), 0o644); err != nil { // a document
			t.Fatal(err)
		}
	}
}
