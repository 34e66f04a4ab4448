// Command agent is the server of the fault tests. Its handler executes the text of the message
// and records its effects in a file, which the tests compare with the store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	var cfg holdfast.Config
	var db postgres.Config
	var addr, effects string
	var contracts bool
	set := flag.NewFlagSet("agent", flag.ContinueOnError)
	set.StringVar(&addr, "addr", "127.0.0.1:0", "where to listen")
	set.StringVar(&effects, "effects", "", "file to add a line to for everything that is done")
	set.StringVar(&cfg.DataDir, "data", "", "data directory")
	set.IntVar(&cfg.Turns.Concurrency, "concurrency", 0, "turns that run at once")
	set.DurationVar(&cfg.Requests.MessageWait, "message-wait", 0, "how long streams wait for a message alone")
	set.Int64Var(&cfg.Memory, "memory", 0, "bytes that the process may use")
	set.IntVar(&cfg.Turns.MaxAttempts, "attempts", 0, "maximum number of attempts of a turn")
	set.DurationVar(&cfg.Turns.Lease, "lease", 0, "how long a lease lasts")
	set.DurationVar(&cfg.Turns.Timeout, "timeout", 0, "longest turn")
	set.DurationVar(&cfg.StopGrace, "stop-grace", 0, "time for handlers when the server stops")
	set.DurationVar(&cfg.Turns.HandlerGrace, "handler-grace", 0, "time for a handler to return after its context is canceled")
	set.IntVar(&cfg.Limits.Queued, "queued", 0, "most tasks that wait")
	set.Func("retention", "how long finished tasks are kept, by kind", func(ages string) (err error) {
		cfg.Retention, err = engine.ParseRetention(ages)
		return err
	})
	set.StringVar(&db.URL, "database", "", "PostgreSQL to use instead of the data directory")
	set.StringVar(&db.Schema, "schema", "", "schema of the database")
	set.IntVar(&db.PoolMax, "pool-max", 0, "most connections to the database")
	set.DurationVar(&db.Timeout, "pool-timeout", 0, "longest wait for a connection")
	set.DurationVar(&db.CommandTimeout, "command-timeout", 0, "longest command")
	set.IntVar(&db.MaxRetries, "retries", 0, "how often a command is tried again")
	set.DurationVar(&db.RetryDelay, "retry-delay", 0, "pause before a command is tried again")
	set.Func("webhook-allow", "network whose webhooks may be called", func(net string) error {
		cfg.Webhooks.AllowNets = append(cfg.Webhooks.AllowNets, net)
		return nil
	})
	set.DurationVar(&cfg.Webhooks.Timeout, "webhook-timeout", 0, "longest that a webhook may take")
	set.DurationVar(&cfg.Webhooks.Lease, "webhook-lease", 0, "how long a lease of a webhook lasts")
	set.IntVar(&cfg.Webhooks.Limits.PerMinute, "webhook-per-minute", 0, "most webhooks a principal saves in a minute")
	set.BoolVar(&contracts, "contracts", false, "use every contract in each turn")
	set.Func("owner", "principal, who is also the token", func(name string) error {
		cfg.Tokens = append(cfg.Tokens, server.Token{Token: name, Principal: a2a.Principal{ID: name}})
		return nil
	})
	if err := set.Parse(args); err != nil {
		return err
	}
	file, err := os.OpenFile(effects, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cfg.Name = "faults"
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	cfg.Limits = engine.Limits{Queued: cfg.Limits.Queued}
	if db.URL != "" {
		db.Migrate, db.Logger, db.Vectors = true, cfg.Logger, contracts
		s, openErr := postgres.Open(context.Background(), db)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		cfg.Store, cfg.DataDir = s, ""
	}
	return serve(cfg, addr, &script{effects: file, contracts: contracts})
}

// serve runs the agent until SIGTERM. A second SIGTERM ends the process at once.
func serve(cfg holdfast.Config, addr string, h holdfast.Handler) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(130)
	}()
	started := time.Now()
	agent, err := holdfast.New(cfg, h)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s/ after %s\n", ln.Addr(), time.Since(started).Round(time.Millisecond))
	return agent.Serve(ctx, ln)
}
