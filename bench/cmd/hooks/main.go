// Command hooks runs the programs that measure webhooks: an agent, or a bare HTTP client.
//
//	hooks -kind agent [-addr 127.0.0.1:0] [-storage memory|sqlite|postgres] [-data DIR] [-database-url URL -schema NAME] [-pprof ADDR]
//	hooks -kind post [-addr 127.0.0.1:0]
//
// The agent answers a message "8 400 20ms" with 8 chunks of 400 bytes at intervals of 20 ms,
// "8 400 20ms 5s" with the same after 5 s, "wait" by waiting for further input, and others with one
// short chunk. It allows webhooks at loopback addresses. The bare client posts bodies of N bytes to URL when it
// receives GET /run?url=URL&bytes=N&connections=N&for=DURATION.
//
// Both serve until SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // served only with -pprof
	"os"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	kind, addr, storage, data, databaseURL, schema, pprof string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "hooks:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("hooks", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.kind, "kind", "", "program to run: agent or post")
	flags.StringVar(&o.addr, "addr", "127.0.0.1:0", "address to listen on")
	flags.StringVar(&o.storage, "storage", "memory", "storage of the agent: memory, sqlite or postgres")
	flags.StringVar(&o.data, "data", "", "directory of the SQLite database")
	flags.StringVar(&o.databaseURL, "database-url", "", "URL of the PostgreSQL database")
	flags.StringVar(&o.schema, "schema", "", "schema in the PostgreSQL database")
	flags.StringVar(&o.pprof, "pprof", "", "address to serve profiles on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return err
	}
	if o.pprof != "" {
		go func() {
			s := &http.Server{Addr: o.pprof, ReadHeaderTimeout: 10 * time.Second} // serves the default mux
			fmt.Fprintln(stderr, "hooks: pprof:", s.ListenAndServe())
		}()
	}
	switch o.kind {
	case "agent":
		return serveAgent(ctx, l, o, stderr)
	case "post":
		return serve(ctx, l, http.HandlerFunc(post))
	}
	return errors.Join(fmt.Errorf("unknown kind %q, want agent or post", o.kind), l.Close())
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
