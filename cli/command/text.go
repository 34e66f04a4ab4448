package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/contract"
)

// DescribeItems returns the numbers of the items of a contract as texts, without zeros.
func DescribeItems(n contract.Counts, kind *contract.Kind) (items []string) {
	for i := range kind.Lines {
		if line := &kind.Lines[i]; n[line.Counts] > 0 {
			items = append(items, Plural(n[line.Counts], line.Name))
		}
	}
	return items
}

// Plural returns a number of things, such as 2 entities.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ReplaceFile calls write to write a file with mode 0600. It replaces an existing file atomically,
// after everything is on disk.
func ReplaceFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if err = write(f); err != nil {
		return err
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Age returns the time since t as text, "-" if t is zero.
func Age(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Compact returns m as JSON, "" if it is empty.
func Compact(m map[string]any) string {
	raw, err := json.Marshal(m)
	if len(m) == 0 || err != nil {
		return ""
	}
	return string(raw)
}

// NonNilReader returns r, or an empty reader if r is nil because the program has no stdin.
func NonNilReader(r io.Reader) io.Reader {
	if r == nil {
		return io.MultiReader()
	}
	return r
}

// mediaTypes are media types by extension that differ between systems.
var mediaTypes = map[string]string{
	".txt": "text/plain", ".text": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".markdown": "text/markdown",
	".html": "text/html", ".htm": "text/html", ".pdf": "application/pdf", ".json": "application/json",
	".csv": "text/csv", ".yaml": "application/yaml", ".yml": "application/yaml", ".xml": "application/xml",
}

// CommonMediaType returns the media type by the extension of name, "" if the extension is not common.
func CommonMediaType(name string) string { return mediaTypes[strings.ToLower(filepath.Ext(name))] }

// MediaType returns the media type by the extension of name, or by content if that is unknown.
func MediaType(name string, content []byte) string {
	if kind := CommonMediaType(name); kind != "" {
		return kind
	}
	kind := mime.TypeByExtension(strings.ToLower(filepath.Ext(name)))
	if kind == "" {
		kind = http.DetectContentType(content)
	}
	if base, params, err := mime.ParseMediaType(kind); err == nil && (len(params) == 0 || strings.EqualFold(params["charset"], "utf-8")) {
		return base
	}
	return kind
}

// NonEmpty is a flag value that must not be empty. With an empty value, such as an unset variable of
// a script, send would start a new task instead of continuing one, or lose its idempotency key.
type NonEmpty string

// UnmarshalText implements [encoding.TextUnmarshaler].
func (g *NonEmpty) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("must not be empty")
	}
	*g = NonEmpty(text)
	return nil
}

// TimeJSON returns a time for JSON, nil if it is zero.
func TimeJSON(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// TimeText returns a time as text, "" if it is zero.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// Until returns the time until t as text, "-" if it is zero.
func Until(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Age(time.Now().Add(-time.Until(t)))
}
