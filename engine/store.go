package engine

import "github.com/holdfast-dev/holdfast/store"

// Store is what an engine uses of a store. It leaves webhooks to their service and closing
// to the owner of the store.
type Store interface {
	store.Tasks
	store.Contexts
	store.Feedbacks
	store.Maintenance
}
