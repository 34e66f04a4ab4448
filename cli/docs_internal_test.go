package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-shellwords"
)

// TestDocumentedCommandsParse checks the commands and flags of each holdfast command line in the README, docs/ and
// deploy/. Nothing is run.
func TestDocumentedCommandsParse(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../deploy/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	command := regexp.MustCompile(`(?:^|[\s(=])(?:holdfast|go run \./cmd/holdfast) ([a-z].*)$`)
	end := regexp.MustCompile(`\s+(?:#|\||\d?>|&|;).*$|\)\s*(?:#.*)?$`)
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if !fenced && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "#   ") {
				continue
			}
			m := command.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil {
				continue
			}
			checked++
			args, err := shellwords.Parse(end.ReplaceAllString(m[1], ""))
			if err != nil {
				t.Errorf("%s: %s: %v", page, strings.TrimSpace(line), err)
				continue
			}
			var g grammar
			parser, err := newApp(Program{}).parser(&g)
			if err != nil {
				t.Fatal(err)
			}
			if parsed, err := kong.Trace(parser, args); err != nil {
				t.Errorf("%s: %s: %v", page, strings.TrimSpace(line), err)
			} else if parsed.Error != nil {
				t.Errorf("%s: %s: %v", page, strings.TrimSpace(line), parsed.Error)
			}
		}
	}
	if checked < 40 {
		t.Errorf("checked %d command lines, want at least 40", checked)
	}
}
