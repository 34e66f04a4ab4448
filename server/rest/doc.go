// Package rest serves the methods of a table as the HTTP+JSON binding of A2A. Its routes derive
// from the descriptors of the methods. The response is the JSON of the result without an envelope,
// or server-sent events. The [Codec] of a protocol version determines the paths, the JSON and the
// errors.
//
// # Guarantees
//
//   - Variables of the path, query parameters and members of the body are the params of the
//     method. A param that two of them give differently is rejected.
//   - Query parameters are in camelCase or snake_case; unknown ones are ignored.
//   - With tenants, every path of the binding may follow the name of a tenant, which has no effect.
package rest
