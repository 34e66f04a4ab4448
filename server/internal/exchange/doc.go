// Package exchange has the parts that the transports of package server share. An [Exchange] is one
// HTTP request with its response. [Bodies] reads the body, [Replies] executes a call and responds
// in the [Format] of the transport, and [Streams] executes and answers calls of streaming methods.
// Bodies, Replies and Streams have their own limits and counters, and are safe for concurrent use.
package exchange
