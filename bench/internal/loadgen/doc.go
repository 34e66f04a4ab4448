// Package loadgen measures an A2A 0.3 JSON-RPC server with a closed loop: a
// fixed number of workers, each with a keep-alive connection of its own, each
// sending its next request when the answer to the last one has been read and
// checked.
//
// # Concepts
//
// A request, in the words of [Config] and [Report], is one pass of the
// scenario: one exchange for most, several for [SendGet]. A call is one HTTP
// exchange. The window is the time that counts: it starts after the warm-up
// and is Config.Duration long, or ends with the last of Config.Requests.
//
// # Guarantees
//
// Every answer is checked: HTTP 200, the JSON-RPC id of the request, a result
// and no error, and what the scenario promises of the task. Whatever fails a
// check is an error and is not part of rate or latencies, so a server cannot
// look fast by answering wrongly. Message ids are UUIDs and unique across runs.
//
// The generator shares its cores with the server it measures, so it is built
// to be cheap: a request is bytes prepared beforehand with ids patched in, and
// nothing is allocated per request. It speaks HTTP/1.1 by itself over the
// connection, because net/http's client costs twice the CPU per exchange:
// 30 against 15 microseconds where it was measured, and of the 15 all but a
// quarter are system calls.
//
// # Concurrency
//
// Runs are independent of each other. [Run] returns after all its goroutines.
//
// # Errors
//
// [Run] fails for an invalid Config, for a server that cannot be reached or
// refuses the preparation of a scenario, and when its context ends. Failed
// requests are not failures of Run: they are counted in the Report.
package loadgen
