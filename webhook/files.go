package webhook

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
)

// fileMemory is the memory of a file within a body, as a multiple of its size: the content, and its
// encoding in base64.
const fileMemory = 3

// errNoFileMemory makes files of a body links.
var errNoFileMemory = errors.New("not enough free memory for the files of a request")

// files returns the files of bodies. Their memory is added to a hold if it is free; a worker that
// holds memory must not wait for more.
func (c *common) files(owner string, hold *memoryHold) *fileref.View {
	return c.cfg.Files.View(fileref.ViewParams{Owner: owner, Base: c.cfg.URL, Reserve: func(_ context.Context, bytes int64) error {
		if !hold.tryGrow(fileMemory * bytes) {
			return errNoFileMemory
		}
		return nil
	}})
}

// view replaces the files of the event by the files that the receiver gets.
func (u *update) view(ctx context.Context, v *fileref.View) error {
	e, err := fileref.MapEvent(*u.event, func(parts []a2a.Part) ([]a2a.Part, error) { return v.Parts(ctx, parts) })
	u.event = &e
	return err
}
