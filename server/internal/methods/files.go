package methods

import (
	"cmp"
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

// view returns the files of a call's results.
func (m *Methods) view(c *rpc.Call) *fileref.View {
	return m.cfg.Engine.Files().View(fileref.ViewParams{Owner: c.Principal.ID, Base: m.base(c), Links: c.FileLinks, Reserve: c.ReserveMemory})
}

// linksView shows files as links, for results of limited size.
func (m *Methods) linksView(c *rpc.Call) *fileref.View {
	return m.cfg.Engine.Files().View(fileref.ViewParams{Owner: c.Principal.ID, Base: m.base(c), Links: true})
}

// base returns the address of the agent for links. For a gRPC request only the configured address
// is known, because the request's host belongs to another listener.
func (m *Methods) base(c *rpc.Call) string {
	if _, other := c.Codec.(rpc.BinaryCodec); other {
		return m.cfg.URL
	}
	return cmp.Or(m.cfg.URL, c.Origin.URL())
}

// viewTask converts a task to A2A with its files.
func (m *Methods) viewTask(ctx context.Context, c *rpc.Call, t *store.Task, historyLength *int) (*a2a.Task, error) {
	out := convertTask(c, t, historyLength)
	return out, m.view(c).Task(ctx, out)
}

// viewHistory returns messages with their files as links.
func (m *Methods) viewHistory(ctx context.Context, c *rpc.Call, history []a2a.Message) ([]a2a.Message, error) {
	t := &a2a.Task{History: history}
	err := m.linksView(c).Task(ctx, t)
	return t.History, err
}

// viewEvent returns an item of a stream with its files.
func viewEvent(ctx context.Context, v *fileref.View, e a2a.Event) (_ a2a.Event, err error) {
	switch e := e.(type) {
	case *a2a.Task:
		err = v.Task(ctx, e)
	case *a2a.TaskArtifactUpdateEvent:
		e.Artifact.Parts, err = v.Parts(ctx, e.Artifact.Parts)
	case *a2a.TaskStatusUpdateEvent:
		e.Status.Message, err = v.Message(ctx, e.Status.Message)
	}
	return e, err
}
