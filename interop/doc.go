// Package interop has the clients of other projects drive the holdfast command: the official SDKs
// for Go and JavaScript in both protocol versions, and the remote agents of ADK. It also has our client
// and commands use servers of the official Go SDK. It is a module of
// its own: these clients are dependencies of its tests only.
package interop
