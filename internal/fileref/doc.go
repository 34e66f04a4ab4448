// Package fileref keeps the content of large files of messages and artifacts as blobs. A task has
// only a reference to such a file: a [a2a.FileWithURI] with a URI of a reserved scheme. Clients get
// the content or a signed link instead of a reference, see [Files.View].
package fileref
