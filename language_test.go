package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// discouraged are words and phrases that docs/contributing.md lists with what to write instead.
var discouraged = regexp.MustCompile(strings.Join([]string{
	`\b[Tt](old|ells?|elling)\b`,
	`\b[Bb]ecom(e|es|ing) of\b`, `\b[Bb]ecame of\b`,
	`\b([Bb]egins?|[Bb]egan|[Bb]egun)\b`,
	`\b([Gg]o|[Gg]oes|[Gg]oing|[Ww]ent|[Gg]one) on\b`,
	`\b([Cc]omes?|[Cc]oming|[Cc]ame) back\b`,
	`\b([Gg]ives?|[Gg]iving|[Gg]ave|[Gg]iven) up\b`,
	`\b[Ll]ets? go\b`,
	`\b([Hh]olds?|[Hh]olding|[Hh]eld) up\b`,
	`\b[Ll]ook(s|ed|ing)? at\b`,
	`\b[Ss]ees? to\b`,
	`\b([Ss]o|[Aa]s) many\b`,
	`\b([Ii]s|[Aa]re|[Ww]as|[Ww]ere) (not )?there\b`,
	`\b([Mm]ostly|[Ww]hom|[Dd]oom(ed)?|[Cc]rowd(ed|s)?|[Ll]onely|[Pp]atience|[Gg]lance|[Hh]eard|[Nn]ews|[Bb]ur(y|ied|ies)|[Ss]tray(s|ed)?|[Kk]in)\b`,
	`\b([Ss]uspects?|[Uu]nsure|[Dd]oubts?|[Ss]trangers?|[Ff]ares|[Vv]anish(es|ed)?)\b`,
	`(^|[.:;!?] )(What|Whose)\b[^?]*$`,
}, "|"))

// shorthand are forms that refer to a noun instead of repeating it, and how often they may occur in 10,000 words of
// comments and documents. Some uses have no better form.
var shorthand = map[*regexp.Regexp]int{
	regexp.MustCompile(`(?i)\b(that|those)\s+of\b`): 2,
	regexp.MustCompile(`(?i)\bwhose\b`):             4,
}

// messageFuncs are the functions with a log message, an error or a test failure as first string
// literal.
var messageFuncs = []string{
	"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext",
	"New", "Errorf", "Fatalf", "Logf", "Skip", "Skipf", "Invalid", "Wrap", "usagef",
}

// TestTextsUsePlainEnglish finds discouraged words in comments, documents, help texts, errors, log messages and test failures.
func TestTextsUsePlainEnglish(t *testing.T) {
	t.Parallel()
	found, words := 0, 0
	uses := make(map[*regexp.Regexp]int)
	count := func(text string) {
		words += len(strings.Fields(text))
		for form := range shorthand {
			uses[form] += len(form.FindAllString(text, -1))
		}
	}
	report := func(place, text string) {
		for line := range strings.SplitSeq(text, "\n") {
			if m := discouraged.FindString(strings.TrimLeft(line, "/*-|# \t")); m != "" && !slices.Contains(plainEnglishAllowed, strings.TrimSpace(line)) {
				found++
				t.Errorf("%s: %q in: %s", place, m, strings.TrimSpace(line))
			}
		}
	}
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := path != "." && strings.HasPrefix(d.Name(), ".") && path != ".ci"
			if hidden || slices.Contains([]string{"bin", "node_modules", "stopwords"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(path)
		switch {
		case kind == ".txtar": // scripts of the command, with the help texts that they expect
		case slices.Contains(strings.Split(filepath.ToSlash(filepath.Dir(path)), "/"), "testdata"):
			return nil // data
		case path == "Makefile", slices.Contains([]string{".ci", "scripts"}, filepath.Dir(path)):
			kind = ".txt"
		}
		switch kind {
		case ".go":
			files++
			eachText(t, path, report, count)
		case ".md", ".sql", ".txt", ".txtar", ".yml", ".yaml":
			files++
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if kind == ".md" {
				count(string(text))
			}
			for i, line := range strings.Split(string(text), "\n") {
				statement := filepath.Ext(path) == ".sql" && !strings.HasPrefix(strings.TrimSpace(line), "--")
				listed := path == filepath.Join("docs", "contributing.md") && strings.HasPrefix(line, "|") // the table of these words
				if !statement && !listed {
					report(fmt.Sprintf("%s:%d", path, i+1), line)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 400 {
		t.Errorf("checked %d files, want at least 400: the walk finds too few", files)
	}
	if len(plainEnglishAllowed) > 20 {
		t.Errorf("%d lines are allowed, want at most 20", len(plainEnglishAllowed))
	}
	for form, limit := range shorthand {
		if uses[form]*10_000 > limit*words {
			t.Errorf("%s occurs %d times in %d words, want at most %d in 10,000: repeat the noun, or use the possessive", form, uses[form], words, limit)
		}
	}
	if words < 200_000 {
		t.Errorf("counted %d words, want at least 200,000", words)
	}
	t.Logf("%d lines in %d files; %v", found, files, uses)
}

// eachText reports the comments, help texts and messages of a Go file, and counts groups of comments.
func eachText(t *testing.T, path string, report func(place, text string), count func(text string)) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	at := func(p token.Pos) string { q := fset.Position(p); return fmt.Sprintf("%s:%d", path, q.Line) }
	for _, group := range f.Comments {
		count(group.Text())
		for _, c := range group.List {
			report(at(c.Pos()), c.Text)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				report(at(n.Tag.Pos()), reflect.StructTag(tag).Get("help"))
			}
		case *ast.CallExpr:
			name := ""
			switch fun := n.Fun.(type) {
			case *ast.SelectorExpr:
				name = fun.Sel.Name
			case *ast.Ident:
				name = fun.Name
			}
			if !slices.Contains(messageFuncs, name) {
				return true
			}
			for _, arg := range n.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					report(at(lit.Pos()), text)
					break
				}
			}
		}
		return true
	})
}

// plainEnglishAllowed are lines that need one of the words.
var plainEnglishAllowed []string
