// Package exchange has the parts that the transports of package server share. An [Exchange] is
// one HTTP request with its response. [Bodies] reads the body, [Replies] executes a call and
// responds in the [Format] of the transport, and [Streams] does so for streaming methods. Each
// of them has its own limits and counters, and is safe for concurrent use.
package exchange
