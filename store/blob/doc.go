// Package blob is the contract for large values: images, documents, intermediate results.
//
// # Concepts
//
// A blob is content with a type, a name and a time of expiry. An owner stores content and
// receives a ref, an opaque string that cannot be guessed. The ref returns the content until it
// expires or is deleted. A holder pins a blob that it still needs: a pinned blob does not
// expire. When the last holder unpins it, it expires after its TTL.
//
// [Store] is the interface that handlers use, and [Scope] is its short form for one owner.
// [Maintenance], [Transactional] and [Restorer] are optional. The stores of this project implement
// them. Authors of stores use package blobdriver, too.
//
// # Guarantees
//
//   - A ref that Put returned survives a crash, if the backend is durable, with its whole content.
//   - A Put that fails, or that dies with its process, leaves nothing that a ref reaches. [Maintenance]
//     removes its bytes.
//   - A ref that is unknown, expired or of another owner is [ErrNotFound], always the same error.
//   - Equal contents of one owner are stored once. Nothing is shared between owners, so the
//     store does not reveal that another owner has the same content.
//   - Each upload has a name of its own. So the removal of a content never removes a later upload
//     of the same bytes.
//
// # Concurrency
//
// All types are safe for concurrent use. Changes of one owner are serialized while their rows are
// written, not while content is read or written.
package blob
