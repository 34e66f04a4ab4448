// Package webhook delivers the events of tasks to webhooks, in order and signed. It retries
// each event until the receiver accepts it or the event becomes a dead letter, which can be
// replayed.
//
// The package reads the event logs that the engine writes, through the lanes of package
// store. The engine and this package do not depend on each other. The requests for an event,
// including their ids, are computed from the log alone. They are the same for every attempt,
// replica and restart.
package webhook
