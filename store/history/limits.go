package history

import "time"

// Limits. Sizes are in bytes.
const (
	// MaxName limits owners, agents, sessions, runs, idempotency keys and ids of tool calls.
	MaxName = 512
	MaxRole = 64
	MaxBody = 1 << 20
	// MaxToolIDs limits the tool calls and the tool results of a message.
	MaxToolIDs = 128
	// MaxToolSpan is the maximum number of messages from a tool call to its result. Messages that are
	// further apart are not kept together.
	MaxToolSpan = 128
	// MaxAppend and MaxAppendBytes limit the messages of one append.
	MaxAppend      = 1000
	MaxAppendBytes = 8 << 20
	// DefaultPage and MaxPage are numbers of results per page.
	DefaultPage = 100
	MaxPage     = 1000
	// MaxPageBytes limits the bodies of a page in total. A page ends before the message that exceeds
	// it, and reports that more follow.
	MaxPageBytes = 8 << 20
	// MaxTTL limits the time until a session expires.
	MaxTTL = 100 * 365 * 24 * time.Hour
)

// Limits of searches.
const (
	// MaxSearchText is the number of bytes of a message's text that a search compares.
	MaxSearchText  = 64 << 10
	MaxSearchQuery = 1 << 10
	// SearchScan is the number of messages that one search examines.
	SearchScan = 10_000
)
