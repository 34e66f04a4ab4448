// Package loadgen measures an A2A server with a closed loop: a fixed number of workers, each with
// its own keep-alive connection. A worker sends its next request when the response to the previous
// one has been read and checked. Over gRPC, 16 workers share a connection, because programs make
// concurrent calls of gRPC over one connection.
//
// # Concepts
//
// In [Config] and [Report], a request is one execution of the scenario: one HTTP exchange for most,
// several for [SendGet]. A call is one HTTP exchange, or one call of gRPC. The window is the measured time. It starts
// after the warm-up and lasts for Config.Duration, or until the last of Config.Requests.
//
// # Guarantees
//
// Every response is checked: HTTP 200, the JSON-RPC id of the request, a result instead of an
// error, and the state of the task that the scenario requires. A response that fails a check is an
// error and counts neither in the rate nor in the latencies, so a server cannot appear fast with
// wrong responses. Message ids are UUIDs and unique across runs.
//
// The generator shares its processors with the server that it measures, so it uses little time: a
// request is prepared in advance, its ids are replaced in place, and no request allocates memory.
// It implements HTTP/1.1 itself, because the client of net/http needs twice the processor time per
// exchange: 30 instead of 15 microseconds. Three quarters of the 15 are system calls. For the same
// reason it implements what gRPC needs of HTTP/2 itself. A call over gRPC costs it no more than one
// over HTTP/1.1, because several workers share a write and a read. With one worker it costs more: a
// second goroutine reads its responses.
//
// # Concurrency
//
// Runs are independent of each other. [Run] returns after all its goroutines have ended.
//
// # Errors
//
// [Run] fails if the Config is invalid, if the server cannot be reached or rejects the preparation
// of a scenario, or if its context ends. Failed requests do not make Run fail; the Report counts
// them.
package loadgen
