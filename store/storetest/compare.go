package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// diff tells how two values of the contract differ, "" when they do not. It
// sees past what the contract leaves open: the Go types of free-form values,
// empty and absent, and the members of a run that mean nothing in its phase.
func diff(got, want any) string {
	if reflect.DeepEqual(got, want) { // much faster, and most often so
		return ""
	}
	return cmp.Diff(got, want, compareOptions...)
}

var compareOptions = cmp.Options{
	cmp.FilterPath(isSlice, cmpopts.EquateEmpty()),
	cmpopts.IgnoreUnexported(store.Task{}),
	cmpopts.IgnoreFields(store.Task{}, "LogSize"), // not of the content
	cmpopts.AcyclicTransformer("run", meaningful),
	cmpopts.AcyclicTransformer("lane", meaningfulLane),
	cmp.Comparer(func(a, b map[string]any) bool {
		return len(a) == 0 && len(b) == 0 || equalJSON(a, b)
	}),
	cmp.Comparer(func(a, b a2a.DataPart) bool {
		return equalJSON(a.Data, b.Data) && (len(a.Metadata) == 0 && len(b.Metadata) == 0 || equalJSON(a.Metadata, b.Metadata))
	}),
}

func isSlice(p cmp.Path) bool { return p.Last().Type().Kind() == reflect.Slice }

// meaningful returns a run without what its phase gives no meaning to.
func meaningful(r store.Run) store.Run {
	if r.Phase != store.PhaseQueued {
		r.DueAt = time.Time{}
	}
	if r.Phase != store.PhaseLeased {
		r.Lease.Until = time.Time{}
	}
	return r
}

// meaningfulLane returns a lane without what means nothing when it is not pending.
func meaningfulLane(l store.Lane) store.Lane {
	if !l.Pending() {
		l.DueAt = time.Time{}
	}
	return l
}

func equalJSON(a, b any) bool { return bytes.Equal(canonical(a), canonical(b)) }

// canonical returns the JSON of a value, members sorted and numbers in one
// spelling.
func canonical(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Appendf(nil, "not JSON: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return fmt.Appendf(nil, "not JSON: %v", err)
	}
	data, err = json.Marshal(sameNumbers(plain))
	if err != nil {
		return fmt.Appendf(nil, "not JSON: %v", err)
	}
	return data
}

func sameNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			return "number " + r.RatString()
		}
	case map[string]any:
		for k := range v {
			v[k] = sameNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = sameNumbers(v[i])
		}
	}
	return v
}
