package auth_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

// The table of docs/identity.md is the table of the methods.
func TestTheDocumentationHasEveryOperation(t *testing.T) {
	t.Parallel()
	const file, start, end = "../docs/identity.md", "<!-- operations -->\n", "<!-- /operations -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), start)
	got, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no table between %q and %q", file, start, end)
	}
	want := "| Method | Scope | Level | Permission |\n|---|---|---|---|\n"
	for _, m := range a2a.Methods() {
		want += fmt.Sprintf("| `%s` | `%s` | `%s` | `%s` |\n", m.Name, m.Scope, m.Level, m.Permission)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+start+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from the methods (run go test ./auth -run TestTheDocumentation -update):\n%s", file, diff)
	}
}
