package transfer

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// fileStore stores large files of imported tasks as blobs. The zero value leaves them in the tasks.
type fileStore struct{ files *fileref.Files }

// event returns a copy of a task's event, and its size. In the copy, blobs that the task holds
// replace large files. The blobs are pinned before the commit, so an import that is interrupted and
// not repeated leaves them.
func (s *fileStore) event(ctx context.Context, task store.Key, e *store.Event, size int) (store.Event, int, error) {
	stored, err := fileref.MapEvent(*e, s.parts(ctx, task))
	if err != nil {
		return stored, size, err
	}
	refs := fileref.EventRefs(nil, &stored)
	if len(refs) == 0 {
		return stored, size, nil
	}
	for _, ref := range refs {
		if err := s.files.Blobs().Pin(ctx, task.Owner, ref, fileref.Holder(task.ID)); err != nil {
			return stored, size, fmt.Errorf("task %s: pin file: %w", task.ID, err)
		}
	}
	data, err := wire.Marshal(&stored)
	return stored, len(data), err
}

// task returns a copy of a task. In the copy, the same blobs as in its events replace large
// files.
func (s *fileStore) task(ctx context.Context, key store.Key, t *store.Task) (*store.Task, error) {
	return fileref.MapTask(t, s.parts(ctx, key))
}

func (s *fileStore) parts(ctx context.Context, task store.Key) func(parts []a2a.Part) ([]a2a.Part, error) {
	return func(parts []a2a.Part) ([]a2a.Part, error) {
		stored, err := s.files.StoreParts(ctx, task, parts)
		if err != nil {
			err = fmt.Errorf("task %s: store file: %w", task.ID, err)
		}
		return stored, err
	}
}
