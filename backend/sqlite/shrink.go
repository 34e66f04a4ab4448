package sqlite

import "fmt"

const (
	// shrinkPages is the number of free pages that one transaction returns to the file
	// system. It delays other requests no longer than a group of changes.
	shrinkPages = 128
	// Shrinking starts when there are at least shrinkMinFree free pages and these are
	// 1/shrinkStartShare of the file. It stops at 1/shrinkStopShare, so that new data
	// can use the remaining ones.
	shrinkMinFree    = 256
	shrinkStartShare = 10
	shrinkStopShare  = 20
)

// shrinker returns free pages to the file system.
type shrinker struct {
	*conn
	canShrink bool // the file was created with incremental vacuum
	shrinking bool
}

func (w *shrinker) load() error {
	const incremental = 2
	mode, err := w.ints("PRAGMA auto_vacuum")
	if err != nil {
		return fmt.Errorf("read auto_vacuum mode: %w", err)
	}
	w.canShrink = mode[0] == incremental
	return nil
}

// shrink returns free pages to the file system and reports whether more should be
// returned. The file itself becomes shorter at the next checkpoint.
func (w *shrinker) shrink() (more bool, err error) {
	if !w.canShrink {
		return false, nil
	}
	free, err := w.ints("PRAGMA freelist_count")
	if err != nil {
		return false, err
	}
	pages, err := w.ints("PRAGMA page_count")
	if err != nil {
		return false, err
	}
	excess := free[0] - pages[0]/shrinkStopShare
	if !w.shrinking && (free[0] < shrinkMinFree || free[0] < pages[0]/shrinkStartShare) || excess <= 0 {
		w.shrinking = false
		return false, nil
	}
	_, err = w.ints(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(shrinkPages, excess)))
	w.shrinking = excess > shrinkPages
	return w.shrinking, err
}
