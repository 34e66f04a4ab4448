// Package v03 has the codecs of A2A 0.3, which convert between the model of package a2a and JSON:
// [Codec] the JSON of the specification, and [ProtoCodec] the ProtoJSON of HTTP+JSON. Server and
// client use them; nothing else depends on the version.
//
// # Guarantees
//
// Params are decoded leniently: names in camelCase and snake_case, null as absent, unknown
// members ignored. Every error is an [a2a.Error] that names the member. The output follows the
// specification exactly, except in the profile [Codec.Bindu]: a value that it does not allow is
// replaced, and [MetadataData] or [v10.MetadataRole] has the original.
//
// # Concurrency
//
// Codecs are safe for concurrent use.
package v03
