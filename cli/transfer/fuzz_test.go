package transfer_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/cli/transfer"
)

// FuzzImport checks that Import does not panic, that a rejected import writes nothing, and that
// the export of an imported document can be imported again. It corrects checksums, so that the
// fuzzer reaches the code after them.
func FuzzImport(f *testing.F) {
	lines := smallDocument(f)
	f.Add([]byte(strings.Join(lines, "")), true)
	f.Add([]byte(strings.Join(lines[:2], "")+lines[len(lines)-1]), true)
	f.Add([]byte(strings.Join(lines[:6], "")+lines[len(lines)-1]), false)
	f.Fuzz(func(t *testing.T, data []byte, cancel bool) {
		document := string(data)
		if split := strings.SplitAfter(strings.TrimSuffix(document, "\n"), "\n"); len(split) > 1 {
			document = fixSum(split)
		}
		opts := queueUnfinished
		opts.Owner = "alice"
		if cancel {
			opts.Unfinished = transfer.UnfinishedCancel
		}
		target := memory(t)
		if _, err := transfer.Import(t.Context(), strings.NewReader(document), target, opts); err != nil {
			checkEmpty(t, target)
			return
		}
		var all bytes.Buffer
		if _, err := transfer.ExportAll(t.Context(), &all, target, "alice"); err != nil {
			t.Fatalf("ExportAll() of what was imported = %v", err)
		}
		report, err := transfer.Import(t.Context(), &all, target, queueUnfinished)
		if err != nil || len(report.Written) > 0 {
			t.Fatalf("Import() of the export = %+v, %v, want nothing written", report, err)
		}
	})
}
