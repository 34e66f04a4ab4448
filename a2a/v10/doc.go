// Package v10 is the codec of A2A 1.0: it converts between the model of package a2a and JSON.
// The tags v10 of the model and the conversions here are the differences to A2A 0.3.
//
// # Guarantees
//
// Params are decoded as ProtoJSON requires: names in camelCase and snake_case, enums as names
// or numbers, numbers as strings, both alphabets of base64, null as absent, unknown members
// ignored. Every error is an [a2a.Error] that names the member as in A2A 1.0.
//
// A2A 1.0 has fewer states and roles than the model. Additional ones are mapped to the most
// similar name, and the original is stored in the metadata under [MetadataState] and
// [MetadataRole], so that two agents that support the extensions lose nothing. Metadata maps
// are never modified in place. Results have no members of extensions, which strict clients
// reject, except with [Codec.Extensions].
//
// # Concurrency
//
// A Codec is safe for concurrent use.
package v10
