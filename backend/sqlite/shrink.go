package sqlite

import (
	"context"
	"fmt"
)

const (
	// shrinkPages is the number of free pages that one transaction gives back: others wait
	// no longer than for a group of changes.
	shrinkPages = 128
	// Free pages are given back once there are shrinkFrom of them and they are a tenth of
	// the file, until they are a twentieth: new data uses the others again.
	shrinkFrom  = 256
	shrinkStart = 10
	shrinkStop  = 20
)

// loadShrink reads whether the file can shrink: it was made to.
func (w *writer) loadShrink() error {
	const incremental = 2
	mode, err := w.ints(context.Background(), "PRAGMA auto_vacuum")
	if err != nil {
		return fmt.Errorf("read how the file shrinks: %w", err)
	}
	w.shrinks = mode[0] == incremental
	return nil
}

// shrink gives free pages back to the file system and reports whether there are more to
// give back. The file is cut when the log is written back.
func (w *writer) shrink() (more bool, err error) {
	if !w.shrinks {
		return false, nil
	}
	ctx := context.Background()
	free, err := w.ints(ctx, "PRAGMA freelist_count")
	if err != nil {
		return false, err
	}
	pages, err := w.ints(ctx, "PRAGMA page_count")
	if err != nil {
		return false, err
	}
	excess := free[0] - pages[0]/shrinkStop
	if !w.shrinking && (free[0] < shrinkFrom || free[0] < pages[0]/shrinkStart) || excess <= 0 {
		w.shrinking = false
		return false, nil
	}
	_, err = w.ints(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(shrinkPages, excess)))
	w.shrinking = excess > shrinkPages
	return w.shrinking, err
}
