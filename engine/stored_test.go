package engine

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Stores contain these bytes, so every version must read them.
func TestStoredStepIsReadable(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/stored/step.json")
	if err != nil {
		t.Fatal(err)
	}
	data := strings.TrimSpace(string(raw))
	want := stepRecord{
		Artifacts: []writeRecord{
			{
				ID: "artifact-1", Explicit: true, Name: "name", Starts: true, Ends: true, Generation: 2, From: []int{1, 2}, To: []int{3, 4},
				Head: &head{Description: "description", Metadata: map[string]any{"key": "value"}, Extensions: []string{"https://example.org/x"}},
			},
			{ID: "artifact-2"},
		},
		Steps: []string{"a", "b", "a"},
	}
	var got stepRecord
	if err := wire.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored step (-want +got):\n%s", diff)
	}
	written, err := wire.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != data {
		t.Errorf("the step is written as %s, want %s", written, data)
	}
}
