package graph

import "time"

// Limits. Sizes are in bytes.
const (
	// MaxName limits owners, graphs, ids and the names of entities that are found.
	MaxName = 512
	// MaxLabel limits labels and types.
	MaxLabel = 63
	// MaxProperties limits the JSON of properties, MaxPropertiesDepth its levels.
	MaxProperties      = 64 << 10
	MaxPropertiesDepth = 32
	// MaxWrite limits each list of a [Batch], and MaxWriteBytes the properties of all of them.
	MaxWrite      = 1000
	MaxWriteBytes = 16 << 20
	// MaxIDs limits the ids and names of a read, MaxTypes its types and labels.
	MaxIDs   = 1000
	MaxTypes = 100
	// MaxDepth limits the distance of a walk. StartsOnly is the depth of a walk that does not leave its starts.
	MaxDepth   = 16
	StartsOnly = -1
	// Limits of a walk.
	DefaultEntities      = 1000
	MaxEntities          = 100_000
	DefaultRelationships = 10_000
	MaxRelationships     = 500_000
	// MaxResult limits the JSON of the properties of a result.
	MaxResult = 64 << 20
	// DefaultLimit and MaxLimit are numbers of entities, relationships or graphs of a list.
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Limits of queries in Cypher.
const (
	MaxQuery       = 64 << 10 // bytes of a query, and of its params
	DefaultRows    = 1000
	MaxRows        = 100_000
	DefaultSteps   = 1_000_000
	MaxSteps       = 100_000_000
	DefaultTimeout = 10 * time.Second
	MaxTimeout     = 5 * time.Minute
)
