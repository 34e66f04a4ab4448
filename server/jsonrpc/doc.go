// Package jsonrpc serves the methods of a table as JSON-RPC 2.0 over HTTP POST: single requests,
// batches, and streams as server-sent events. It knows neither the listener nor the other
// routes of the server. The HTTP status is 200 for errors of methods; transport errors, calls
// that panicked and a stopping server have other statuses.
package jsonrpc
