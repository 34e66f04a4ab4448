// Package wire is the JSON codec of Holdfast's typed protocol objects. It is
// strict in what it emits and lenient in what it takes.
//
// # Concepts
//
// A typed object is a Go struct whose fields carry a json tag with the
// camelCase name (with omitempty, or omitzero where an empty list says something
// else than none) and, where the protocol says so, a wire tag:
//
//	wire:"required"        the member must be present and not null
//	wire:"nullable"        null counts as present, for members that must be there
//	wire:"const=kind:text" a blank field: the member kind is always "text"
//	wire:"number=code:-1"  a blank field: the member code is always -1
//	wire:"alias=url"       another accepted name for the member
//	wire:"literal"         the name is the same in snake_case
//	wire:"text"            a string of free text, see [UnmarshalStrict]
//
// The json tag may carry a snake_case name instead: then that one is emitted and
// wins, and camelCase is accepted too. A union is an interface type announced
// with [Union], [UnionOr] or [UnionByMember]: one member of the object, the
// discriminator, or the member that is present, names the concrete type.
//
// # Guarantees
//
//   - Members are accepted in camelCase and snake_case; when both are sent the
//     emitted spelling wins. null means absent. Unknown members are skipped.
//   - The contents of maps and of any values are never re-cased, and numbers in
//     them keep their value: what a float64 cannot hold stays a json.Number.
//   - Every refusal is an [*Error] that names the member by its path and the rule
//     it broke. A path has the emitted spelling, whatever was sent.
//   - [UnmarshalStrict] refuses what JSON leaves undefined between implementations:
//     duplicate names, lone surrogates in identifiers and numbers that no float64 can hold.
//   - Decoding takes time and memory linear in the input and refuses nesting
//     deeper than [MaxDepth].
//
// # Concurrency
//
// All functions are safe for concurrent use. Decoded values share no memory with
// the input; the raw texts that [Members] and [Items] hand out do.
package wire
