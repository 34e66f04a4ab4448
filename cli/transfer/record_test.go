package transfer_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store"
)

func saveRecord(t *testing.T, s store.Store, namespace, key, value string) {
	t.Helper()
	if err := s.SaveRecords(t.Context(), conversation.Owner, store.RecordChange{Namespace: namespace, Key: key, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsAreExportedAndImported(t *testing.T) {
	t.Parallel()
	source, target := memory(t), memory(t)
	createDone(t, source, "t1", 0)
	for i := range 40 {
		saveRecord(t, source, "n", strings.Repeat("k", i+1), "\x00value")
	}
	saveRecord(t, source, "empty", "k", "")
	if err := source.SaveRecords(t.Context(), conversation.Owner, store.RecordChange{Namespace: "expiring", Key: "k", Expires: time.UnixMilli(1_800_000_000_123)}); err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if report, err := transfer.ExportAll(t.Context(), &document, source, conversation.Owner); err != nil || report.Document["records"] != 42 || report.Document["contexts"] != 1 {
		t.Fatalf("ExportAll() = %+v, %v, want one context and 42 records", report, err)
	}
	for _, written := range []int64{42, 0} {
		report, err := transfer.Import(t.Context(), strings.NewReader(document.String()), target, transfer.ImportOptions{})
		if err != nil || report.Written["records"] != written || report.Document["records"] != 42 {
			t.Fatalf("Import() = %+v, %v, want %d of 42 records written", report, err, written)
		}
	}
	var again bytes.Buffer
	if _, err := transfer.ExportAll(t.Context(), &again, target, conversation.Owner); err != nil || again.String() != document.String() {
		t.Errorf("ExportAll() of the import differs, %v", err)
	}
}

func TestImportReportsConflictingRecords(t *testing.T) {
	t.Parallel()
	export := func(value string) string {
		s := memory(t)
		saveRecord(t, s, "n", "a", value)
		saveRecord(t, s, "n", "b", "same")
		var out bytes.Buffer
		if _, err := transfer.ExportAll(t.Context(), &out, s, conversation.Owner); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	one, two := export("1"), export("2")
	for _, test := range []struct{ name, existing, input, want string }{
		{"another value in the store", "2", one, "record a of namespace n of owner alice exists with another value"},
		{"two documents", "", one + two, "different records of owner alice"},
		{"a changed value", "", strings.Replace(one, "MQ==", "Mg==", 1), "sha256 does not match"},
		{"a missing record", "", strings.Join(append(strings.SplitAfter(one, "\n")[:2], strings.SplitAfter(one, "\n")[4:]...), ""), "type is end, want record"},
		{"a key that is too long", "", strings.Replace(one, `"key":"a"`, `"key":"`+strings.Repeat("a", store.MaxRecordKey+1)+`"`, 1), "record key: has 513 bytes, limit is 512"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := memory(t)
			if test.existing != "" {
				saveRecord(t, s, "n", "a", test.existing)
			}
			_, err := transfer.Import(t.Context(), strings.NewReader(test.input), s, transfer.ImportOptions{})
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, ""), test.want) {
				t.Errorf("Import() = %v, want %q", err, test.want)
			}
			if _, err := s.Record(t.Context(), store.RecordKey{Owner: conversation.Owner, Namespace: "n", Key: "b"}); err == nil {
				t.Error("a rejected import wrote a record")
			}
			if code := a2a.CodeOf(err); code == a2a.CodeInternal {
				t.Errorf("Import() = %v with code internal", err)
			}
		})
	}
}

// Owners that start with a control character have records of the server itself, such as the secret of links.
func TestImportRejectsOwnersOfTheServer(t *testing.T) {
	t.Parallel()
	source := newMemory(t)
	createDone(t, source, "t1", 0)
	saveRecord(t, source, "files", "link-secret", strings.Repeat("s", 32))
	fillKept(t, keptOf(source), conversation.Owner)
	var records bytes.Buffer
	if _, err := transfer.ExportAll(t.Context(), &records, source, conversation.Owner); err != nil {
		t.Fatal(err)
	}
	all := records.String()
	at := strings.LastIndex(all, `{"type":"holdfast-export"`)
	for name, document := range map[string]string{"context": all[:at], "records": all[at:], "kept data": exportKept(t, keptOf(source), conversation.Owner)} {
		changed := fixSum(strings.SplitAfter(strings.ReplaceAll(document, `"owner":"alice"`, `"owner":"\u001fholdfast"`), "\n"))
		target := newMemory(t)
		for _, err := range []error{
			second(transfer.Import(t.Context(), strings.NewReader(changed), target, transfer.ImportOptions{Contracts: storesOf(target)})),
			second(transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: storesOf(target), Owner: "\x1fholdfast"})),
		} {
			if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), "must not start with a control character") {
				t.Errorf("Import() of a %s = %v, want an error about the owner", name, err)
			}
		}
		if _, err := target.Record(t.Context(), store.RecordKey{Owner: "\x1fholdfast", Namespace: "files", Key: "link-secret"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Record() of the secret = %v, want not found", err)
		}
	}
}

func second(_ transfer.Report, err error) error { return err }
