package push

// Service delivers to webhooks and keeps them. Make one with [New], then Start and Stop
// it once. It is safe for concurrent use.
type Service struct {
	cfg Config
	registry
}
