package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// documentText returns the text of a file, or of stdin for "-".
func (a *app) documentText(ctx context.Context, file string) (string, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(command.NonNilReader(a.Stdin))
	} else {
		data, err = os.ReadFile(file) // named by the user
	}
	if err != nil {
		return "", err
	}
	kind := command.MediaType(file, data[:min(len(data), 512)])
	if kind == "text/markdown" {
		kind = "text/plain" // with headings and tables
	}
	pages, err := a.parts.Reader.Pages(ctx, "", kind, data)
	if errors.Is(err, summarize.ErrUnsupported) && a.parts.Reader.PDF == nil {
		return "", command.WithHint(err, "the command "+fullBuild+" reads PDF too")
	}
	if err != nil {
		return "", err
	}
	texts := make([]string, len(pages))
	for i, p := range pages {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n\n"), nil
}
