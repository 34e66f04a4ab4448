package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/engine"
)

// Forget removes all data of a principal: contexts, tasks, feedback, webhooks, records, and the
// data of all contracts, such as transcripts and facts. With cancel it cancels running tasks;
// otherwise it returns an error if there are any. Revoke the access of the principal first. After
// an error, another call removes the rest. See [engine.Forget].
func (a *Agent) Forget(ctx context.Context, owner string, cancel bool) (engine.ForgetReport, error) {
	return engine.Forget(ctx, engine.ForgetParams{Store: a.store, Engine: a.engine, Owner: owner, Cancel: cancel})
}
