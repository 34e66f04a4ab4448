// Package redis stores transcripts and session states in Redis 6.2 or later, or in a Redis Cluster:
//
//	s, err := redis.Open(ctx, redis.Config{URL: "redis://localhost:6379/0"})
//	...
//	defer s.Close()
//	transcripts := s.History()
//	states, err := s.ShortTerm(memory.ShortTermConfig{TTL: 24 * time.Hour})
//
// # Concepts
//
// All keys of a session have the same hash tag, so they are on one node of a cluster. A transcript
// is a hash with its totals, and a stream with a message per entry. A state is a hash. The index of
// the sessions of an owner is a sorted set; it is written before a session and corrected when it is
// read, so that an interrupted call leaves no session without an entry.
//
// # Guarantees
//
// A change is one Lua script, which the server executes atomically. Each change has a number that
// the script stores with its result: a change that is sent again after a lost answer, or that the
// server executes late, has no second effect. An acknowledged change is as durable as the server is
// configured: appendfsync always survives loss of power, and with asynchronous replication a
// failover may lose the latest changes.
//
// # Concurrency
//
// A [Store] is safe for concurrent use. It sends concurrent calls in one pipeline. Changes of one
// session by one Store are sent one after another.
//
// # Errors
//
// If the server does not answer, a call fails with code unavailable after [Config.Timeout]. The
// outcome of a change is then unknown: repeat it with an idempotency key. If the server has no free
// memory, a change fails with code resource_exhausted and has no effect.
package redis
