// Package cards builds and serves the agent cards of a server.
//
// # Concepts
//
// The union card is the card of A2A 0.3 with the members of A2A 1.0 added, so that clients of
// either version find their transport on it. The strict card has the members of A2A 1.0 only,
// for clients that reject others.
package cards
