package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// command is a command with its arguments.
type command []any

// client sends commands. It repeats those that failed because of the network or the state of the
// server, so every command must be harmless when it is executed twice or late.
type client struct {
	timeout time.Duration
	single  *goredis.Client        // nil for a cluster
	cluster *goredis.ClusterClient // nil for a single server

	mu    sync.Mutex
	nodes map[*goredis.Client]*node
}

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// limit returns a context that ends after Config.Timeout, with errNoAnswer as the cause.
func (c *client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.timeout, errNoAnswer)
}

// ended returns the error of a call with a context of limit: the error of the caller's context if it
// is done, errNoAnswer if the time of the call or of an attempt ended, or else last.
func ended(ctx context.Context, last error) error {
	switch done := ctx.Err() != nil; {
	case done && !errors.Is(context.Cause(ctx), errNoAnswer):
		return ctx.Err()
	case done && last == nil, errors.Is(last, context.DeadlineExceeded):
		return errNoAnswer
	}
	return last
}

// run sends commands for the slot of a key in this order and returns their replies; a nil reply is
// nil. build returns the commands of an attempt; the first attempt is 0.
func (c *client) run(ctx context.Context, key string, build func(attempt int) []command) ([]any, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	return c.runLimited(ctx, key, build)
}

// runLimited is run with a context of limit.
func (c *client) runLimited(ctx context.Context, key string, build func(attempt int) []command) ([]any, error) {
	var last error
	for attempt, redirect := 0, false; ctx.Err() == nil; attempt++ {
		replies, err := c.attempt(ctx, key, build(attempt), redirect)
		if err == nil || !retryable(err) && ctx.Err() == nil {
			return replies, err
		}
		if ctx.Err() == nil {
			last = err
		}
		redirect = goredis.HasErrorPrefix(err, "MOVED") || goredis.HasErrorPrefix(err, "ASK")
		if !redirect {
			pause := min(minBackoff<<min(attempt, 10), maxBackoff)
			select {
			case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // a pause needs no secrecy
			case <-ctx.Done():
			}
		}
	}
	return nil, ended(ctx, last)
}

// errNoAnswer: the time of a call ended before the server answered.
var errNoAnswer = errors.New("no answer in time")

// retryable reports whether a command that failed is sent again.
func retryable(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.Is(err, goredis.ErrClosed) || errors.As(err, &certificate) {
		return false
	}
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return true // an error of the network
	}
	for _, prefix := range []string{"LOADING", "BUSY ", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "max number of clients"} {
		if goredis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// attempt sends commands. If the server does not know one of their scripts, it sends them a
// second time, with the texts of the scripts.
func (c *client) attempt(ctx context.Context, key string, commands []command, redirect bool) ([]any, error) {
	replies, err := c.send(ctx, key, commands, redirect)
	if !goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return replies, err
	}
	for _, cmd := range commands {
		if s, ok := cmd[1].(*script); ok {
			cmd[0], cmd[1] = "eval", s.text
		}
	}
	return c.send(ctx, key, commands, redirect)
}

func (c *client) send(ctx context.Context, key string, commands []command, redirect bool) ([]any, error) {
	b := &batch{done: make(chan struct{})}
	for _, cmd := range commands {
		args := cmd
		if s, ok := cmd[1].(*script); ok {
			args = append(command{cmd[0], s.sha}, cmd[2:]...)
		}
		b.size += argSize(args)
		b.cmds = append(b.cmds, goredis.NewCmd(ctx, args...))
	}
	switch {
	case redirect && c.cluster != nil: // the cluster client follows redirections
		pipe := c.cluster.Pipeline()
		b.process(ctx, pipe)
		_, _ = pipe.Exec(ctx) // each command has its error
	default:
		n, err := c.node(ctx, key)
		if err != nil {
			return nil, err
		}
		if err := n.do(ctx, b); err != nil {
			return nil, err
		}
	}
	return b.replies()
}

func argSize(args []any) (size int) {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			size += len(a)
		case []byte:
			size += len(a)
		}
	}
	return size
}

// node returns the node that has a key.
func (c *client) node(ctx context.Context, key string) (*node, error) {
	on := c.single
	if c.cluster != nil {
		var err error
		if on, err = c.cluster.MasterForKey(ctx, key); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[on]
	if n == nil {
		n = &node{client: on}
		c.nodes[on] = n
	}
	return n, nil
}

// batch is the commands of one call.
type batch struct {
	cmds []*goredis.Cmd
	size int // bytes of arguments
	done chan struct{}
}

func (b *batch) process(ctx context.Context, pipe goredis.Pipeliner) {
	for _, cmd := range b.cmds {
		_ = pipe.Process(ctx, cmd) // queues it
	}
}

func (b *batch) replies() ([]any, error) {
	replies := make([]any, len(b.cmds))
	for i, cmd := range b.cmds {
		reply, err := cmd.Result()
		if err != nil && !errors.Is(err, goredis.Nil) {
			return nil, err
		}
		replies[i] = reply
	}
	return replies, nil
}

// Limits of a pipeline, and the number of pipelines that a node executes at the same time.
const (
	maxPipeline      = 512
	maxPipelineBytes = 4 << 20
	pipelines        = 1
)

// node sends the commands of concurrent calls to a server in common pipelines.
type node struct {
	client *goredis.Client

	mu      sync.Mutex
	waiting []*batch
	running int // goroutines that send
}

// do sends commands and waits for their replies, or until ctx is done.
func (n *node) do(ctx context.Context, b *batch) error {
	n.mu.Lock()
	n.waiting = append(n.waiting, b)
	if n.running < pipelines {
		n.running++
		go n.send()
	}
	n.mu.Unlock()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends pipelines until no call waits.
func (n *node) send() {
	for next := n.next(); next != nil; next = n.next() {
		pipe := n.client.Pipeline()
		for _, b := range next {
			b.process(context.Background(), pipe)
		}
		_, _ = pipe.Exec(context.Background()) // each command has its error
		for _, b := range next {
			close(b.done)
		}
		n.gather(len(next))
	}
}

// gather lets the callers of the last pipeline make their next calls, as long as there are more of
// them, so that they share a pipeline again. A server that syncs its log does so once per pipeline.
func (n *node) gather(last int) {
	for before, now := -1, 0; now > before && now < last; {
		runtime.Gosched()
		n.mu.Lock()
		before, now = now, len(n.waiting)
		n.mu.Unlock()
	}
}

// next returns the calls of the next pipeline. If no call waits, it reduces running and returns nil.
func (n *node) next() []*batch {
	n.mu.Lock()
	defer n.mu.Unlock()
	size, count := 0, 0
	for count < len(n.waiting) && count < maxPipeline && (count == 0 || size+n.waiting[count].size <= maxPipelineBytes) {
		size += n.waiting[count].size
		count++
	}
	if count == 0 {
		n.running--
		return nil
	}
	next := n.waiting[:count:count]
	n.waiting = n.waiting[count:]
	return next
}
