// Package v03 is the edge between the model of package a2a and the JSON of A2A
// 0.3: what of it is not told by the types themselves.
//
// # Guarantees
//
// Params are read leniently (camelCase and snake_case, null as absent, unknown
// members ignored); every refusal is an [a2a.Error] that names the member. What
// is written follows the specification to the letter.
//
// # Concurrency
//
// All functions are safe for concurrent use.
package v03
