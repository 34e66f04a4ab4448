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

// diff returns the difference between two values of the contract, or "" if they are equal. It
// ignores differences that the contract permits: Go types of free-form values, empty and absent
// collections, and fields of queue entries and lanes that have no meaning in their state.
func diff(got, want any) string {
	if reflect.DeepEqual(got, want) { // much faster, and the usual case
		return ""
	}
	return cmp.Diff(got, want, compareOptions...)
}

var compareOptions = cmp.Options{
	cmp.FilterPath(isSlice, cmpopts.EquateEmpty()),
	cmpopts.IgnoreUnexported(store.Task{}),
	cmpopts.IgnoreFields(store.Task{}, "LogSize"), // stores need not count it
	cmpopts.AcyclicTransformer("run", normalizeQueueEntry),
	cmpopts.AcyclicTransformer("lane", normalizeLane),
	cmp.Comparer(func(a, b map[string]any) bool {
		return len(a) == 0 && len(b) == 0 || equalJSON(a, b)
	}),
	cmp.Comparer(func(a, b a2a.DataPart) bool {
		return equalJSON(a.Data, b.Data) && (len(a.Metadata) == 0 && len(b.Metadata) == 0 || equalJSON(a.Metadata, b.Metadata))
	}),
}

func isSlice(p cmp.Path) bool { return p.Last().Type().Kind() == reflect.Slice }

// normalizeQueueEntry clears the fields that have no meaning in the entry's phase.
func normalizeQueueEntry(r store.QueueEntry) store.QueueEntry {
	if r.Phase != store.PhaseQueued {
		r.DueAt = time.Time{}
	}
	if r.Phase != store.PhaseLeased {
		r.Lease.Until = time.Time{}
	}
	return r
}

// normalizeLane clears the fields that have no meaning while the lane is not pending.
func normalizeLane(l store.Lane) store.Lane {
	if !l.Pending() {
		l.DueAt = time.Time{}
	}
	return l
}

func equalJSON(a, b any) bool { return bytes.Equal(canonicalJSON(a), canonicalJSON(b)) }

// canonicalJSON returns the JSON of a value with sorted members and normalized numbers.
func canonicalJSON(v any) []byte {
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
	data, err = json.Marshal(normalizeNumbers(plain))
	if err != nil {
		return fmt.Appendf(nil, "not JSON: %v", err)
	}
	return data
}

func normalizeNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			return "number " + r.RatString()
		}
	case map[string]any:
		for k := range v {
			v[k] = normalizeNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = normalizeNumbers(v[i])
		}
	}
	return v
}
