package holdfast_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-dev/holdfast"

// layers are the rows of packages, from the lowest one: a package imports only packages of lower rows and
// its own sub-packages. The longest matching prefix determines the row. docs/design/packages.md has the table.
var layers = [][]string{
	0:  {"internal/await", "internal/config", "internal/content", "internal/cputime", "internal/jsonobject", "internal/jsonschema", "internal/keywords", "internal/mutants", "internal/recent", "internal/recording", "internal/runtime", "internal/safehttp", "internal/seal", "internal/signature", "internal/testport", "internal/testseed", "internal/wire", "scripts/gotest", "store/filter", "store/vector/ann"},
	1:  {"a2a", "internal/pgtest"},
	2:  {"a2a/ap2", "a2a/v10", "internal/cardsig", "internal/memory", "store/suite"},
	3:  {"a2a/v03", "internal/migrate", "rpc", "store"},
	4:  {"client", "internal/sqlkit", "store/blob", "store/board", "store/contract", "store/encoding", "store/graph", "store/history", "store/memory", "store/rules"},
	5:  {"auth/did", "store/blob/blobdriver", "store/graph/graphdriver", "store/memory/memorydriver", "store/history/historydriver"},
	6:  {"auth/issuer", "backend/internal", "cli/command", "internal/fileref", "store/blob/blobsql", "store/board/boards", "store/graph/graphwalk", "store/history/historysql", "store/memory/recall", "store/memory/states", "store/vector"},
	7:  {"backend/internal/sqltask", "store/blob/blobs", "store/graph/graphsql", "store/history/transcripts", "store/memory/recall/recallsql", "store/vector/vectordriver"},
	8:  {"embedding", "rag", "store/graph/graphs", "store/memory/memorysql", "store/vector/documents", "store/vector/vectors", "store/vector/vectorsql", "webhook"},
	9:  {"backend", "store/graph/cypher", "store/memory/facts", "store/storetest"},
	10: {"backend/inmem", "internal/notes", "internal/sqlkit/kittest", "store/blob/blobtest", "store/board/boardtest", "store/contract/all", "store/graph/graphtest", "store/history/historytest", "store/memory/memorytest"},
	11: {"backend/postgres/age", "cli/transfer", "engine", "store/vector/vectortest"},
	12: {"server/internal", "store/blob/blobcmd", "store/board/boardcmd", "store/graph/graphcmd", "store/history/historycmd", "store/memory/memorycmd", "store/vector/vectorcmd"},
	13: {"server/internal/cards", "server/jsonrpc", "server/rest"},
	14: {"server"},
	15: {".", "agents/summarizer/summarize", "auth"},
	16: {"agents/summarizer/pdftext", "holdfasttest"},
	17: {"agents"},
	18: {"cli", "faults"},
	19: {"cli/full"},
	20: {"cli/suites"},
	21: {"cmd"},
}

// wings are folders that no other program needs. Besides their own packages, only these packages import them, tests and
// other modules. A user is a folder or a pattern; the longest wing applies.
var wings = map[string][]string{
	"agents":       {"cli", "cmd"},
	"cli":          {"cmd"},
	"cli/command":  {"cli", "internal/notes", "store/*/*cmd"},
	"cli/transfer": {"cli", "store/graph/graphcmd"},

	"backend/postgres/age": {"cli"},
	"store/graph/cypher":   {"backend/postgres/age", "store/graph/graphcmd", "store/graph/graphtest"},
}

// standardOnly are the packages that import only the standard library and this module.
var standardOnly = []string{"a2a", "a2a/ap2", "a2a/v03", "a2a/v10", "store", "store/rules", "store/encoding", "store/blob", "store/blob/blobdriver", "store/blob/blobs", "store/board", "store/board/boards", "store/contract", "store/contract/all", "store/filter", "store/graph", "store/graph/graphdriver", "store/graph/graphs", "store/history", "store/history/historydriver", "store/history/transcripts", "store/memory", "store/memory/facts", "store/memory/memorydriver", "store/memory/states", "store/vector", "store/vector/documents", "store/vector/vectordriver", "embedding", "rpc", "client", "engine", "webhook", "server", "server/internal/cards", "server/internal/exchange", "server/internal/methods", "server/internal/router", "server/jsonrpc", "server/rest", "internal/wire", "internal/content", "internal/fileref", "internal/cardsig", "internal/config", "internal/jsonobject", "internal/safehttp", "internal/seal", "internal/signature", "internal/migrate", "internal/memory", "internal/runtime"}

func TestPackagesImportOnlyLowerRows(t *testing.T) {
	t.Parallel()
	checked := 0
	eachImport(t, func(pkg, file, imported string) {
		checked++
		inside, ok := strings.CutPrefix(imported, module)
		if !ok {
			return
		}
		target := strings.TrimPrefix(inside, "/")
		if target == "" {
			target = "."
		}
		if strings.HasPrefix(target, pkg+"/") || (strings.HasPrefix(pkg, "agents/") && strings.HasPrefix(target, "agents/")) {
			return
		}
		if row(t, target) >= row(t, pkg) {
			t.Errorf("%s: package %s (row %d) imports %s (row %d), want a lower row", file, pkg, row(t, pkg), target, row(t, target))
		}
	})
	if checked < 100 {
		t.Errorf("checked %d imports, want at least 100", checked)
	}
}

func TestWingsAreLinkedByTheirUsersOnly(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	eachImport(t, func(pkg, file, imported string) {
		target, ok := strings.CutPrefix(imported, module+"/")
		if !ok {
			return
		}
		wing := target
		for wings[wing] == nil && wing != "." {
			wing = path.Dir(wing)
		}
		if wing == "." || within(pkg, wing) {
			return
		}
		used[wing] = true
		if !slices.ContainsFunc(wings[wing], func(user string) bool { return within(pkg, user) }) {
			t.Errorf("%s: package %s imports %s, want only %v to import %s", file, pkg, target, wings[wing], wing)
		}
	})
	for wing := range wings {
		if !used[wing] {
			t.Errorf("nothing imports %s: the rule checks nothing", wing)
		}
	}
}

// core are the packages that programs link without the command. They link no wing, not even through others.
var core = []string{".", "backend/inmem", "backend/postgres", "backend/redis", "backend/s3", "backend/sqlite", "client", "embedding", "holdfasttest", "rag"}

func TestTheCoreLinksNoWing(t *testing.T) {
	t.Parallel()
	for _, root := range core {
		ours, _ := links(t, root)
		for wing := range wings {
			if i := slices.IndexFunc(ours, func(pkg string) bool { return pkg == wing || within(pkg, wing) }); i >= 0 {
				t.Errorf("%s links %s", root, ours[i])
			}
		}
	}
}

// within reports whether a package is in a folder or matches a pattern.
func within(pkg, folder string) bool {
	matches, _ := path.Match(folder, pkg) // an invalid pattern matches nothing
	return matches || strings.HasPrefix(pkg, folder+"/")
}

// A consumer declares what it uses of another type: interfaces grow by embedding.
func TestInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	checked := 0
	eachFile(t, parser.SkipObjectResolution, func(_, file string, parsed *ast.File, _ *token.FileSet) {
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if face, ok := spec.Type.(*ast.InterfaceType); ok {
				checked++
				methods := 0
				for _, m := range face.Methods.List {
					methods += len(m.Names)
				}
				if methods > maxMethods {
					t.Errorf("%s: interface %s declares %d methods, want at most %d", file, spec.Name.Name, methods, maxMethods)
				}
			}
			return true
		})
	})
	if checked < 10 {
		t.Errorf("checked %d interfaces, want at least 10", checked)
	}
}

const maxMethods = 12

// go doc shows the documentation of a type where the type is declared, and nothing of it for an alias. The
// signatures of package holdfast name the packages of the types instead.
func TestPublicTypesAreNoAliases(t *testing.T) {
	t.Parallel()
	types := 0
	eachFile(t, parser.SkipObjectResolution, func(pkg, file string, parsed *ast.File, _ *token.FileSet) {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && pkg == "." {
				if types++; spec.Assign.IsValid() {
					t.Errorf("%s: type %s is an alias", file, spec.Name.Name)
				}
			}
			return true
		})
	})
	if types < 5 {
		t.Errorf("package holdfast has %d types, want at least 5", types)
	}
}

// A type with many methods or fields states in its comment why it is not split: "because".
func TestTypesAreSmall(t *testing.T) {
	t.Parallel()
	const maxMethods, maxFields = 40, 20
	type declared struct {
		file, comment   string
		methods, fields int
	}
	types := make(map[string]*declared)
	get := func(pkg, name string) *declared {
		key := pkg + "." + name
		if types[key] == nil {
			types[key] = new(declared)
		}
		return types[key]
	}
	eachFile(t, parser.SkipObjectResolution|parser.ParseComments, func(pkg, file string, parsed *ast.File, _ *token.FileSet) {
		for _, decl := range parsed.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil {
					get(pkg, receiver(decl.Recv.List[0].Type)).methods++
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					spec, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					d := get(pkg, spec.Name.Name)
					d.file, d.comment = file, decl.Doc.Text()+spec.Doc.Text()
					if s, ok := spec.Type.(*ast.StructType); ok {
						for _, f := range s.Fields.List {
							d.fields += max(1, len(f.Names))
						}
					}
				}
			}
		}
	})
	for name, d := range types {
		large := d.methods > maxMethods || d.fields > maxFields
		if reason := strings.Contains(d.comment, "because"); large && !reason {
			t.Errorf("%s: type %s has %d methods and %d fields, want at most %d and %d, or a comment that gives the reason with \"because\"",
				d.file, name, d.methods, d.fields, maxMethods, maxFields)
		}
	}
	if len(types) < 500 {
		t.Errorf("checked %d types, want at least 500", len(types))
	}
}

// A suppressed finding of a linter needs a reason that is rare: otherwise the rule is wrong for this code.
func TestFewFindingsAreSuppressed(t *testing.T) {
	t.Parallel()
	const linesEach = 2000
	suppressed, lines := 0, 0
	eachFile(t, parser.ParseComments|parser.SkipObjectResolution, func(_, _ string, parsed *ast.File, fset *token.FileSet) {
		lines += fset.File(parsed.Pos()).LineCount()
		for _, group := range parsed.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//nolint") {
					suppressed++
				}
			}
		}
	})
	if suppressed*linesEach > lines || lines < 100_000 {
		t.Errorf("%d findings are suppressed in %d lines, want at most one in %d", suppressed, lines, linesEach)
	}
}

// A reader who knows one backend finds a method of the others in the file of the same name.
func TestBackendsNameFilesAlike(t *testing.T) {
	t.Parallel()
	exceptions := map[string]string{
		"SaveContext": "context_save.go", // SQLite: the changes of labels and ancestors are long
		"Ping":        "s3.go",           // S3: contents of blobs only
		"WatchLanes":  "lane_watch.go",   // PostgreSQL: notifications between processes
	}
	contract := make(map[string]bool) // methods of the interfaces of package store
	files := make(map[string]map[string]string)
	eachFile(t, parser.SkipObjectResolution, func(pkg, file string, parsed *ast.File, _ *token.FileSet) {
		backend, ok := strings.CutPrefix(pkg, "backend/")
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					for _, name := range m.Names {
						contract[name.Name] = contract[name.Name] || pkg == "store"
					}
				}
			case *ast.FuncDecl:
				if ok && n.Recv != nil && !strings.HasPrefix(backend, "internal") {
					if files[n.Name.Name] == nil {
						files[n.Name.Name] = make(map[string]string)
					}
					files[n.Name.Name][backend] = filepath.Base(file)
				}
			}
			return true
		})
	})
	checked := 0
	for method, in := range files {
		if !contract[method] || len(in) < 3 {
			continue
		}
		checked++
		names := make(map[string]bool)
		for _, file := range in {
			if file != exceptions[method] {
				names[file] = true
			}
		}
		if len(names) > 1 {
			t.Errorf("%s is in %v, want one file name", method, in)
		}
	}
	if checked < 40 {
		t.Errorf("checked %d methods, want at least 40", checked)
	}
}

func TestCorePackagesUseTheStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	eachImport(t, func(pkg, file, imported string) {
		for _, p := range standardOnly {
			if pkg == p && strings.Contains(strings.Split(imported, "/")[0], ".") && !strings.HasPrefix(imported, module) {
				t.Errorf("%s: package %s imports %s, want the standard library only", file, pkg, imported)
			}
		}
	})
}

// row returns the row of a package.
func row(t *testing.T, pkg string) int {
	t.Helper()
	for p := pkg; ; p = path.Dir(p) {
		if p == "." && pkg != "." {
			t.Fatalf("package %s has no row: add it to layers", pkg)
		}
		if r := slices.IndexFunc(layers, func(row []string) bool { return slices.Contains(row, p) }); r >= 0 {
			return r
		}
	}
}

// TestPackagesPageHasTheTableOfLayers compares the table of packages with layers and the packages' documentation.
// -update rewrites it.
func TestPackagesPageHasTheTableOfLayers(t *testing.T) {
	t.Parallel()
	purposes := make(map[string]string)
	eachFile(t, parser.ParseComments|parser.PackageClauseOnly|parser.SkipObjectResolution, func(pkg, _ string, parsed *ast.File, _ *token.FileSet) {
		if parsed.Doc != nil {
			purposes[pkg] = new(doc.Package).Synopsis(parsed.Doc.Text())
		}
	})
	packages := slices.SortedFunc(maps.Keys(purposes), func(a, b string) int {
		return cmp.Or(row(t, b)-row(t, a), strings.Compare(a, b))
	})
	var table strings.Builder
	table.WriteString("| Row | Package | Purpose |\n|---|---|---|\n")
	for _, pkg := range packages {
		purpose := packagePrefix.ReplaceAllString(purposes[pkg], "")
		purpose = strings.NewReplacer("[", "`", "]", "`").Replace(strings.TrimRight(purpose, ".:"))
		fmt.Fprintf(&table, "| %d | `%s` | %s |\n", row(t, pkg), pkg, purpose)
	}
	writeSection(t, "docs/design/packages.md", "layers", table.String())
}

// packagePrefix is the start of the documentation of a package.
var packagePrefix = regexp.MustCompile(`^(Package|Command) [\w-]+ (is )?`)

// eachImport calls f for every import of every non-test file of the module.
func eachImport(t *testing.T, f func(pkg, file, imported string)) {
	t.Helper()
	eachFile(t, parser.ImportsOnly, func(pkg, file string, parsed *ast.File, _ *token.FileSet) {
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			f(pkg, file, imported)
		}
	})
}

// eachFile calls f for every non-test file of the module.
func eachFile(t *testing.T, mode parser.Mode, f func(pkg, file string, parsed *ast.File, fset *token.FileSet)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case "bench", "interop", "testdata", ".git", "node_modules", "examples", "holdfast-data":
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, name, nil, mode)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(filepath.Dir(name)), name, parsed, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// libraryModules are the third-party modules that the root package may link directly. The
// modules that only the command or its agents use are not among them. modernc.org/sqlite links
// golang.org/x/sys too.
var libraryModules = []string{"github.com/gofrs/flock", "github.com/google/uuid", "golang.org/x/sys", "modernc.org/sqlite"}

// commandModules are the third-party modules that the command holdfast may link directly. The
// modules of its other parts are larger.
var commandModules = append([]string{
	"github.com/alecthomas/kong", "github.com/clipperhouse/uax29", "github.com/dustin/go-humanize", "github.com/jackc/pgx", "github.com/mattn/go-shellwords",
	"github.com/go-jose/go-jose", "github.com/mr-tron/base58", "github.com/yuin/goldmark", "go.yaml.in/yaml", "golang.org/x/net", "golang.org/x/term", "golang.org/x/text",
	"golang.org/x/time",
}, libraryModules...)

func TestTheLibraryLinksFewModules(t *testing.T) {
	t.Parallel()
	checkLinks(t, ".", libraryModules)
}

// The command that the README starts is downloaded and compiled quickly.
func TestTheCommandLinksFewModules(t *testing.T) {
	t.Parallel()
	checkLinks(t, "cmd/holdfast", commandModules)
}

// Shipped commands have no test code.
func TestCommandsLinkNoTestCode(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"cmd/holdfast", "cli/full"} {
		_, foreign := links(t, root)
		for _, imported := range foreign {
			if strings.HasPrefix(imported, "testing") || strings.HasPrefix(imported, "pgregory.net/rapid") {
				t.Errorf("%s links %s", root, imported)
			}
		}
	}
	if _, foreign := links(t, "cmd/holdfast-check"); !slices.Contains(foreign, "pgregory.net/rapid") {
		t.Errorf("holdfast-check links %q: this test checks nothing", foreign)
	}
}

// checkLinks checks which modules a package and its dependencies import.
func checkLinks(t *testing.T, root string, modules []string) {
	t.Helper()
	ours, foreign := links(t, root)
	for _, imported := range foreign {
		if strings.Contains(strings.Split(imported, "/")[0], ".") && !slices.ContainsFunc(modules, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }) {
			t.Errorf("%s links %s, want only %v", root, imported, modules)
		}
	}
	if !slices.Contains(ours, "backend/sqlite") || !slices.Contains(ours, "server") {
		t.Errorf("the walk missed packages: %v", ours)
	}
}

// links returns the packages of this module that a package links, and the others that they import.
func links(t *testing.T, root string) (ours, foreign []string) {
	t.Helper()
	imports := make(map[string][]string)
	eachImport(t, func(pkg, _, imported string) {
		imports[pkg] = append(imports[pkg], imported)
	})
	ours = []string{root}
	for i := 0; i < len(ours); i++ {
		for _, imported := range imports[ours[i]] {
			inside, our := strings.CutPrefix(imported, module+"/")
			if imported == module {
				inside, our = ".", true
			}
			switch {
			case our && !slices.Contains(ours, inside):
				ours = append(ours, inside)
			case !our && !slices.Contains(foreign, imported):
				foreign = append(foreign, imported)
			}
		}
	}
	return ours, foreign
}

// The module of gRPC is separate so that other programs do not need it.
func TestTheMainModuleHasNoGRPC(t *testing.T) {
	t.Parallel()
	const required = "google.golang.org/"
	for _, file := range []string{"go.mod", "go.sum"} {
		for line := range strings.Lines(read(t, file)) {
			if strings.Contains(line, required) {
				t.Errorf("%s: %s", file, strings.TrimSpace(line))
			}
		}
	}
	if !strings.Contains(read(t, "server/grpc/go.mod"), required) {
		t.Errorf("server/grpc/go.mod does not require %s: this test checks nothing", required)
	}
}
