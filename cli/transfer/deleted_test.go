package transfer_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// onCall wraps s and calls do before the nth call of a method.
func onCall(s store.Store, method string, n int, do func()) store.Store {
	return storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
		if c.Method == method && c.N == n {
			do()
		}
		return storetest.Pass
	})
}

// Export fails if the context is deleted at any time, also if a new context gets the same id.
func TestExportFailsWhenContextIsDeleted(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Tasks", "Task", "Events", "Feedback"} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(method, ", again ", again), func(t *testing.T) {
				t.Parallel()
				s := memory(t)
				createDone(t, s, "t1", 1)
				createDone(t, s, "t2", 2)
				changing := onCall(s, method, 1, func() {
					if _, err := s.DeleteContext(t.Context(), conversation.Owner, conversation.ID, 9); err != nil {
						t.Errorf("DeleteContext() = %v", err)
					}
					if again {
						createDone(t, s, "t3", 30)
					}
				})
				_, err := transfer.Export(t.Context(), io.Discard, changing, conversation)
				if a2a.CodeOf(err) != a2a.CodeConflict || !strings.HasSuffix(err.Error(), `context "c1" was deleted while it was exported`) {
					t.Errorf("Export() = %v, want that it was deleted", err)
				}
			})
		}
	}
}

func TestExportAllSkipsContextsDeletedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	s := memory(t)
	for _, id := range []string{"c1", "c2", "c3"} {
		save(t, s, store.ContextChange{Create: true, Context: store.Context{
			Key: store.ContextKey{Owner: "alice", ID: id}, Role: "r", Status: a2a.ContextActive, CreatedAt: at(1), UpdatedAt: at(1),
		}})
	}
	changing := onCall(s, "Context", 1, func() {
		if _, err := s.DeleteContext(t.Context(), "alice", "c2", 9); err != nil {
			t.Errorf("DeleteContext() = %v", err)
		}
	})
	var all bytes.Buffer
	report, err := transfer.ExportAll(t.Context(), &all, changing, "alice")
	if err != nil || report.Document["contexts"] != 2 || strings.Contains(all.String(), `"c2"`) {
		t.Errorf("ExportAll() = %+v, %v, want c1 and c3:\n%s", report, err, &all)
	}
	if got := importDocument(t, memory(t), all.String(), transfer.ImportOptions{}); got.Written["contexts"] != 2 {
		t.Errorf("Import() = %+v, want 2 contexts", got)
	}
}
