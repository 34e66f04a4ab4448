// Package encoding is how stores write values as JSON into columns: the events of a log,
// snapshots of tasks, contexts, feedback and delivery attempts.
//
// # Stability
//
// Every version of Holdfast reads the values that earlier ones wrote. The encoding has tags of
// its own, for the types of package a2a too, so it does not change when the protocol does. The
// files in testdata/v1 contain every stored type; tests read them, and write them again.
// Results of steps are stored as the handler returned them. Idempotency records have columns
// and no JSON. The engine and package webhook encode values that are opaque to stores, the
// effects of a step and the settings of a webhook; their golden files are in
// engine/testdata/stored and webhook/testdata/stored.
//
// # Versions
//
// A value of version 1 does not name its version. To change the encoding:
//
//  1. Add members that old values lack, or increment [Version] and write it as the member v.
//  2. Decode values of all versions.
//  3. Add the files of the new version beside the files of earlier versions.
//
// A program rejects values of versions that are newer than its own. No statement and no
// program depends on the order of members.
package encoding

import (
	"fmt"
	"time"
)

// Version is the version of the values that this program writes.
const Version = 1

// check returns an error if this program cannot read a value of a version. Values without a
// version have version 1.
func check(version int) error {
	if version > Version {
		return fmt.Errorf("was stored in version %d of the encoding, this program reads up to version %d", version, Version)
	}
	return nil
}

// Millis returns a time as columns contain it: in milliseconds since 1970, 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis returns the time of a column.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
