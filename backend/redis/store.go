package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
)

// Store is a connection to a Redis server or cluster. It is safe for concurrent use.
type Store struct {
	cfg     Config
	client  *client
	id      string       // of this store among the clients of the server
	numbers atomic.Int64 // of changes
	locks   locks
	history *History
	states  *stateCache

	stateEntries *index
}

// Open connects to a server or cluster. It returns an error with code unavailable if it does not
// respond, denies access, evicts keys, or is older than Redis 6.2. The caller must call Close. Open
// disables the log of the client library, which has one for the process that writes to standard error.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	o, err := cfg.complete()
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "%v", err)
	}
	logging.Disable()
	c := &client{timeout: cfg.Timeout, nodes: make(map[*goredis.Client]*node)}
	if !o.IsClusterMode {
		c.single = goredis.NewClient(o.Simple())
		if o.IsClusterMode, err = isCluster(ctx, c); err == nil && o.IsClusterMode {
			if o.DB != 0 {
				err = a2a.Errorf(a2a.CodeInvalid, "redis: URL: a cluster has no databases, remove the path")
			}
			err = errors.Join(err, c.single.Close())
			c.single = nil
		}
	}
	if err == nil && o.IsClusterMode {
		c.cluster = goredis.NewClusterClient(o.Cluster())
	}
	s := &Store{cfg: cfg, client: c, id: rand.Text()[:12], locks: locks{of: make(map[string]*lock)}, states: newStateCache()}
	s.history = &History{s: s, entries: newIndex(s, kindIndex)}
	s.stateEntries = newIndex(s, kindStateIndex)
	if err == nil {
		err = s.checkServers(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, openError(err, o)
	}
	return s, nil
}

// openError returns an error with the addresses of the servers. err has a code, or is an error of the
// server or of the context.
func openError(err error, o *goredis.UniversalOptions) error {
	at := strings.Join(o.Addrs, ",")
	var coded *a2a.Error
	if errors.As(err, &coded) {
		return a2a.Wrap(coded.Code, coded.Err, "redis: %s: %s", at, strings.TrimPrefix(coded.Message, "redis: "))
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code, text := classify(err)
	return a2a.Wrap(code, err, "redis: %s: %s", at, text)
}

// isCluster reports whether a server is a node of a cluster.
func isCluster(ctx context.Context, c *client) (bool, error) {
	info, err := c.info(ctx, c.single)
	return info["redis_mode"] == "cluster", err
}

// info returns the values of INFO of a server.
func (c *client) info(ctx context.Context, on *goredis.Client) (map[string]string, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	text, err := on.Info(ctx).Result()
	if err := ended(ctx, err); err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// Oldest supported version.
const minMajor, minMinor = 6, 2

// checkServers returns an error if a master is not suitable.
func (s *Store) checkServers(ctx context.Context) error {
	return s.client.eachMaster(ctx, func(ctx context.Context, on *goredis.Client) error {
		info, err := s.client.info(ctx, on)
		if err != nil {
			return err
		}
		version := info["redis_version"]
		parts := strings.Split(version+".0", ".")
		major, _ := strconv.Atoi(parts[0])
		minor, _ := strconv.Atoi(parts[1])
		switch policy := info["maxmemory_policy"]; {
		case major < minMajor || major == minMajor && minor < minMinor:
			return a2a.Errorf(a2a.CodeUnavailable, "the server has version %s, want at least %d.%d", version, minMajor, minMinor)
		case info["role"] == "slave":
			return a2a.Errorf(a2a.CodeUnavailable, "the server is a replica: connect to its master")
		case policy != "" && policy != "noeviction":
			return a2a.Errorf(a2a.CodeUnavailable, "the server evicts keys (maxmemory-policy %s), so that data could be lost: set maxmemory-policy noeviction", policy)
		}
		return nil
	})
}

// eachMaster calls f for the server, or for each master of the cluster.
func (c *client) eachMaster(ctx context.Context, f func(ctx context.Context, on *goredis.Client) error) error {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	err := error(nil)
	if c.cluster != nil {
		err = c.cluster.ForEachMaster(ctx, f)
	} else {
		err = f(ctx, c.single)
	}
	return ended(ctx, err)
}

// Ping returns an error if the server, or a master of the cluster, does not respond.
func (s *Store) Ping(ctx context.Context) error {
	return wrapError(s.client.eachMaster(ctx, func(ctx context.Context, on *goredis.Client) error { return on.Ping(ctx).Err() }), "ping")
}

// Close closes the connections. Calls in progress fail.
func (s *Store) Close() error {
	var err error
	if s.client.single != nil {
		err = s.client.single.Close()
	}
	if s.client.cluster != nil {
		err = errors.Join(err, s.client.cluster.Close())
	}
	if err != nil {
		return fmt.Errorf("redis: close: %w", err)
	}
	return nil
}

// History returns the transcripts. They implement all interfaces of package history.
func (s *Store) History() history.Provider { return s.history }

// change runs a script that changes the data of the first key, after this store's earlier changes of
// that key. args follow the arguments of common.lua.
func (s *Store) change(ctx context.Context, sc *script, keys []string, args ...any) (any, error) {
	ctx, cancel := s.client.limit(ctx)
	defer cancel()
	release, err := s.locks.acquire(ctx, keys[0])
	if err != nil {
		return nil, err
	}
	defer release()
	number := s.numbers.Add(1)
	replies, err := s.client.runLimited(ctx, keys[0], func(attempt int) []command {
		cmd := make(command, 0, len(keys)+len(args)+6)
		cmd = append(cmd, "evalsha", sc, len(keys))
		for _, key := range keys {
			cmd = append(cmd, key)
		}
		return []command{append(append(cmd, s.id, number, min(attempt, 1)), args...)}
	})
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// read runs commands for a key.
func (s *Store) read(ctx context.Context, key string, commands ...command) ([]any, error) {
	return s.client.run(ctx, key, func(int) []command { return commands })
}
