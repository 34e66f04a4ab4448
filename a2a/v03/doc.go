// Package v03 is the codec of A2A 0.3: it converts between the model of package a2a and JSON.
// Server and client use it; nothing else depends on the version.
//
// # Guarantees
//
// Params are decoded leniently: names in camelCase and snake_case, null as absent, unknown
// members ignored. Every error is an [a2a.Error] that names the member. The output follows the
// specification exactly, except in the profile [Codec.Bindu].
//
// # Concurrency
//
// A Codec is safe for concurrent use.
package v03
