// Package interop has the official Go client of A2A 0.3 drive the holdfast
// command, so that the protocol is read by somebody else's eyes. It is a module
// of its own: the client is a dependency of these tests only.
package interop
