package redis

import (
	"context"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// RemoveKeys removes all keys that start with a prefix, which must not be empty. It examines all keys
// of the server.
func RemoveKeys(ctx context.Context, s *Store, prefix string) error {
	if prefix == "" {
		return nil
	}
	remove := func(ctx context.Context, on *goredis.Client) error {
		keys := on.Scan(ctx, 0, globEscaper.Replace(prefix)+"*", scanCount).Iterator()
		for keys.Next(ctx) {
			if err := on.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if s.client.cluster != nil {
		return wrapError(s.client.cluster.ForEachMaster(ctx, remove), "remove keys")
	}
	return wrapError(remove(ctx, s.client.single), "remove keys")
}

// scanCount is the number of keys that one request of a scan examines.
const scanCount = 1000

// globEscaper escapes what patterns interpret.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
