package did

// Cached returns the number of results in the cache of a resolver.
func Cached(r *Resolver) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.cached)
}
