// Package wire is the JSON codec of Holdfast's typed protocol objects. It accepts
// more forms than it writes.
//
// # Concepts
//
// A typed object is a Go struct. Its fields have a json tag with the camelCase name (with
// omitempty, or with omitzero if an empty list differs from an absent one) and, if the protocol
// requires it, a wire tag:
//
//	wire:"required"        the member must be present and not null
//	wire:"nullable"        null counts as present, for a required member
//	wire:"const=kind:text" a blank field: the member kind is always "text"
//	wire:"number=code:-1"  a blank field: the member code is always -1
//	wire:"alias=url"       another accepted name for the member
//	wire:"literal"         the name is the same in snake_case
//	wire:"text"            a string of free text, see [UnmarshalStrict]
//	wire:"ext"             a member of an extension, see [NewProtoForm]
//
// The json tag may have a snake_case name instead: then the encoder writes that name, and
// the decoder accepts both. A union is an interface type that is declared with [Union],
// [UnionOr] or [UnionByMember]: the value of one member of the object, the discriminator, or
// the member that is present, determines the concrete type. A [Form] has other tags or unions
// for the same types; [NewProtoForm] returns the form of ProtoJSON.
//
// # Guarantees
//
//   - Members are accepted in camelCase and snake_case. If a document has both, the name
//     that the encoder writes takes precedence. null means absent. Unknown members are
//     ignored.
//   - Names within maps and values of type any do not change their case, and numbers in
//     them keep their value: a number that a float64 cannot represent is a json.Number.
//   - Every error about a document is an [*Error] with the path of the member and the rule
//     that it breaks. The path has the names that the encoder writes.
//   - [UnmarshalStrict] rejects documents that JSON parsers interpret differently: duplicate
//     names, lone surrogates in identifiers, and numbers beyond the range of a float64.
//   - Decoding takes time and memory linear in the input, and rejects nesting deeper than
//     [MaxDepth].
//
// # Concurrency
//
// All functions are safe for concurrent use. Decoded values share no memory with the
// input, except with [UnmarshalShared] and [UnmarshalStrict]. The texts that [Members] and
// [Items] pass on share it.
package wire
