package engine

import "github.com/holdfast-dev/holdfast/store"

// Store is the part of a store that an engine uses. It has no methods for webhooks, which
// package webhook uses, and no Close: the program that opened the store closes it.
type Store interface {
	store.Tasks
	store.Contexts
	store.Feedbacks
	store.Records
	store.Maintenance
}
