package blob

import "time"

// Limits of arguments. Lengths are in bytes.
const (
	MaxOwner       = 1024
	MaxContentType = 255
	MaxName        = 1024
	MaxKey         = 512
	MaxHolder      = 256
	// MaxHolders is the maximum number of holders of a blob.
	MaxHolders = 256
	// MaxPage is the maximum size of a page of List.
	MaxPage = 1000
	// MaxTTL is the maximum TTL, 100 years.
	MaxTTL = 100 * 365 * 24 * time.Hour
)
