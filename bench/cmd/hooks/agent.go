package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// stopTimeout limits the time to stop.
const stopTimeout = 3 * time.Second

func serveAgent(ctx context.Context, l net.Listener, o options, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	kept, err := open(ctx, o, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	a, err := holdfast.New(holdfast.Config{
		Name: "hooks", Store: kept, Logger: log,
		Webhooks: webhook.Settings{AllowNets: []string{"127.0.0.0/8"}, Limits: webhook.Limits{PerMinute: math.MaxInt32}},
	}, holdfast.HandlerFunc(handle))
	if err == nil {
		err = a.Start(ctx)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	err = serve(ctx, l, a.Handler())
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, a.Stop(grace))
}

func open(ctx context.Context, o options, log *slog.Logger) (store.Store, error) {
	switch o.storage {
	case "memory":
		return inmem.New(), nil
	case "sqlite":
		return sqlite.Open(ctx, sqlite.Config{Dir: o.data, Logger: log})
	case "postgres":
		return postgres.Open(ctx, postgres.Config{URL: o.databaseURL, Schema: o.schema, Migrate: true, Logger: log})
	}
	return nil, fmt.Errorf("unknown storage %q, want memory, sqlite or postgres", o.storage)
}

// handle writes the chunks that the message requests. Each starts with the time in nanoseconds
// between two @, if it is long enough.
func handle(ctx context.Context, t *holdfast.Turn) error {
	if t.Text() == "wait" {
		return t.RequireInput("waiting")
	}
	var chunks, bytes int
	var pause, delay string
	if _, err := fmt.Sscan(t.Text()+" 0s", &chunks, &bytes, &pause, &delay); err != nil {
		chunks, bytes, pause, delay = 1, 1, "0s", "0s"
	}
	apart, err := time.ParseDuration(pause)
	before, err2 := time.ParseDuration(delay)
	if err := cmp.Or(err, err2); err != nil {
		return err
	}
	filler := strings.Repeat("x", bytes)
	w := t.Artifact("out")
	for n := range chunks {
		wait := apart
		if n == 0 {
			wait = before
		}
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		text := fmt.Sprintf("@%d@", time.Now().UnixNano())
		if len(text) > bytes {
			text = ""
		}
		if _, err := w.WriteString(text + filler[len(text):]); err != nil {
			return err
		}
	}
	return nil
}
