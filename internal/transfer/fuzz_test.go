package transfer_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/transfer"
)

// FuzzImport wants no panic, nothing written by an import that is refused, and of one
// that is taken an export that can be imported again. Sums are made right, so that the
// fuzzer gets past them.
func FuzzImport(f *testing.F) {
	lines := small(f)
	f.Add([]byte(strings.Join(lines, "")), true)
	f.Add([]byte(strings.Join(lines[:2], "")+lines[len(lines)-1]), true)
	f.Add([]byte(strings.Join(lines[:6], "")+lines[len(lines)-1]), false)
	f.Fuzz(func(t *testing.T, data []byte, cancel bool) {
		document := string(data)
		if split := strings.SplitAfter(strings.TrimSuffix(document, "\n"), "\n"); len(split) > 1 {
			document = resum(split)
		}
		opts := queue
		opts.Owner = "alice"
		if cancel {
			opts.Unfinished = transfer.UnfinishedCancel
		}
		target := memory(t)
		if _, err := transfer.Import(t.Context(), strings.NewReader(document), target, opts); err != nil {
			empty(t, target)
			return
		}
		var all bytes.Buffer
		if _, err := transfer.ExportAll(t.Context(), &all, target, "alice"); err != nil {
			t.Fatalf("ExportAll() of what was imported = %v", err)
		}
		report, err := transfer.Import(t.Context(), &all, target, queue)
		if err != nil || report.Written != (transfer.Counts{}) {
			t.Fatalf("Import() of the export = %+v, %v, want that all is there", report, err)
		}
	})
}
