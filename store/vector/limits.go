package vector

// Limits. Sizes are in bytes.
const (
	// MaxName limits owners, collections, ids and names of embedders.
	MaxName   = 512
	MaxText   = 256 << 10
	MaxBlocks = 1 << 20
	// MaxMetadata and MaxMetadataDepth limit the JSON of the metadata of a document, and its nested
	// objects and arrays.
	MaxMetadata      = 64 << 10
	MaxMetadataDepth = 32
	MaxDimension     = 4096
	// MaxWrite and MaxWriteBytes limit the documents of a write, and the bytes of their texts,
	// blocks and metadata.
	MaxWrite      = 1000
	MaxWriteBytes = 16 << 20
	// MaxIDs limits the ids of Get and Delete.
	MaxIDs     = 1000
	MaxQueries = 64
	// DefaultLimit and MaxLimit are numbers of documents.
	DefaultLimit = 5
	MaxLimit     = 1000
	MaxOffset    = 10_000
	// MaxGrouped is the number of documents from which a search with GroupBy returns groups. It is 4
	// times the limit and the offset if that is more.
	MaxGrouped = 16_384
)
