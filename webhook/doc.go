// Package webhook delivers the events of tasks to webhooks, in order and signed. It retries
// each event until the receiver accepts it or the event becomes a dead letter, which can be
// replayed.
//
// The package reads the event logs that the engine writes, through the lanes of package
// store. The engine and this package do not depend on each other. The requests for an event,
// including their ids, are computed from the log alone. They are the same for every attempt,
// replica and restart.
//
// # Path of an event
//
// A commit of the engine makes a lane due, and the store notifies the service. The event then
// passes through these stages:
//
//  1. claimer.go claims the lane with a lease.
//  2. endpoints.go and limits.go admit it: the endpoint, its owner and the process have free
//     slots, and the circuit breaker (breaker.go) is not open.
//  3. deliverer.go works on the lane (lane.go), one event after the other.
//  4. compose.go builds the request from the log, with pool.go for large content, payload.go
//     and sign.go.
//  5. policy.go classifies the response: delivered, retry, dead letter.
//  6. acknowledger.go stores the results and releases the lane.
//
// Outside this path, endpoint_records.go saves the state of endpoints and wakes their lanes,
// register.go, request.go, list.go and replay.go serve the owners of tasks, and janitor.go removes
// expired data.
package webhook
