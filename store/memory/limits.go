package memory

// Limits of long-term memory.
const (
	MaxScopePart      = 512      // bytes of each part of a Scope
	MaxNamespaceDepth = 8        // levels of a namespace
	MaxFactKey        = 512      // bytes of a key, and of an id
	MaxContent        = 32 << 10 // bytes of a content
	MaxMetadata       = 64 << 10 // bytes of the JSON of the metadata
	MaxMetadataDepth  = 32       // nested objects and arrays
	MaxEntities       = 32       // entities of a fact
	MaxEntity         = 256      // bytes of the name of an entity
	MaxQuery          = 8 << 10  // bytes of a query
	DefaultLimit      = 10       // results
	MaxLimit          = 1000     // results
)
