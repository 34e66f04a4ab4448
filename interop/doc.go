// Package interop tests the holdfast command with the clients of other projects: the official SDKs
// for Go and JavaScript in both protocol versions, and the remote agents of ADK. A recorder between
// clients and command validates all JSON against the definitions of the protocol. The package also
// tests our client and commands with servers of the official SDKs. It is a module of its own: these
// clients are dependencies of its tests only.
package interop
