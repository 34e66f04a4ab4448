// Package v03 has the codecs of A2A 0.3, which convert between the model of package a2a and JSON:
// [Codec] for the JSON of the specification, and [ProtoCodec] for the ProtoJSON of HTTP+JSON.
// Server and client use them; nothing else depends on the version.
//
// # Guarantees
//
// Params are decoded leniently: names in camelCase and snake_case, null as absent, unknown members
// ignored. Every error is an [a2a.Error] that names the member. The output follows the
// specification exactly, except in the profile [Codec.Bindu]: a value that the specification does
// not allow is replaced, and the metadata has the original role ([v10.MetadataRole]) or names the
// member with the original data ([MetadataData]).
//
// # Concurrency
//
// Codecs are safe for concurrent use.
package v03
