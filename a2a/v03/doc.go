// Package v03 converts between the model of package a2a and the JSON of A2A 0.3, as far as the
// types do not describe it themselves.
//
// # Guarantees
//
// Params are decoded leniently: names in camelCase and snake_case, null as absent, unknown
// members ignored. Every error is an [a2a.Error] that names the member. The output follows the
// specification exactly.
//
// # Concurrency
//
// All functions are safe for concurrent use.
package v03
