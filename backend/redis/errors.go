package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-dev/holdfast/a2a"
)

// wrapError wraps an error of the server or the client with its code. op names the operation, for
// the log. Errors that have a code, and errors of the context, are returned unchanged.
func wrapError(err error, op string) error {
	var coded *a2a.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	code, text := classify(err)
	return a2a.Wrap(code, fmt.Errorf("redis: %s: %w", op, err), "%s", text)
}

// replies maps the prefix of a server's error, without "ERR ", to a code and a text for clients.
var replies = []struct {
	prefix string
	code   a2a.Code
	text   string
}{
	{"OOM", a2a.CodeExhausted, "the Redis server has no free memory: raise maxmemory or remove data"},
	{"MISCONF", a2a.CodeUnavailable, "the Redis server cannot write to its disk"},
	{"NOAUTH", a2a.CodeUnavailable, "the Redis server requires a password"},
	{"WRONGPASS", a2a.CodeUnavailable, "the Redis server rejects the user or the password"},
	{"NOPERM", a2a.CodeUnavailable, "the Redis server denies the user a command or a key"},
	{"AUTH", a2a.CodeUnavailable, "the Redis server has no password, but the URL does"},
	{"LOADING", a2a.CodeUnavailable, "the Redis server is loading its data"},
	{"BUSY", a2a.CodeUnavailable, "the Redis server is busy with a script"},
	{"READONLY", a2a.CodeUnavailable, "the Redis server is a read-only replica"},
	{"MASTERDOWN", a2a.CodeUnavailable, "the Redis server is a replica without its master"},
	{"CLUSTERDOWN", a2a.CodeUnavailable, "the Redis Cluster is down"},
	{"TRYAGAIN", a2a.CodeUnavailable, "the Redis Cluster is moving the data"},
	{"MOVED", a2a.CodeUnavailable, "the Redis Cluster is moving the data"},
	{"ASK", a2a.CodeUnavailable, "the Redis Cluster is moving the data"},
	{"max number of clients", a2a.CodeUnavailable, "the Redis server has too many connections"},
}

// classify returns the code of an error and a text for clients.
func classify(err error) (a2a.Code, string) {
	if errors.Is(err, goredis.ErrClosed) {
		return a2a.CodeUnavailable, "the Redis store is closed"
	}
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return a2a.CodeUnavailable, "the Redis server does not respond"
	}
	for _, r := range replies {
		if goredis.HasErrorPrefix(err, r.prefix) {
			return r.code, r.text
		}
	}
	return a2a.CodeInternal, "the Redis server failed"
}
