// Command refserver runs one of the servers with which Holdfast is compared.
//
//	refserver -kind echo|official|official-1.0|official-1.0-chunks|fanout [-addr 127.0.0.1:0] [-grpc-addr ADDRESS]
//	refserver -kind floor -storage memory|sqlite|postgres [-data DIR] [-database-url URL -schema NAME]
//
// It prints its URL as the first line of stdout and serves until SIGINT or
// SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "refserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("refserver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kind := flags.String("kind", "", "server to run: echo, official, official-1.0, official-1.0-chunks, fanout or floor")
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on")
	grpcAddr := flags.String("grpc-addr", "", "address on which official-1.0 also serves gRPC; empty for none")
	storage := flags.String("storage", "memory", "storage of floor: memory (commits nothing), sqlite or postgres")
	data := flags.String("data", ".", "directory of the SQLite database")
	databaseURL := flags.String("database-url", "", "URL of the PostgreSQL database")
	schema := flags.String("schema", "floor", "schema in the PostgreSQL database, which floor creates")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", *addr)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String() + "/"
	var h http.Handler
	switch *kind {
	case "echo":
		h = echoHandler()
	case "official":
		h = officialHandler(url)
	case "official-1.0", "official-1.0-chunks":
		var agent a2asrv.AgentExecutor = echoAgent10{}
		if *kind == "official-1.0-chunks" {
			agent = chunkAgent10{}
		}
		handler, requests := official10Handler(url, agent)
		h = handler
		if *grpcAddr != "" {
			stop, grpcErr := serveGRPC(ctx, *grpcAddr, requests)
			if grpcErr != nil {
				return errors.Join(grpcErr, l.Close())
			}
			defer func() { err = errors.Join(err, stop()) }()
		}
	case "fanout":
		h = &fanout{}
	case "floor":
		commit, closeStore, openErr := openStore(ctx, *storage, *data, *databaseURL, *schema)
		if openErr != nil {
			return errors.Join(openErr, l.Close())
		}
		defer func() { err = errors.Join(err, closeStore()) }()
		h = floorHandler(commit)
	default:
		return errors.Join(fmt.Errorf("unknown kind %q, want echo, official, official-1.0, official-1.0-chunks, fanout or floor", *kind), l.Close())
	}
	if _, err := fmt.Fprintln(stdout, url); err != nil {
		return errors.Join(err, l.Close())
	}
	return serve(ctx, l, h)
}

// openStore opens the store of a floor. A nil committer stores nothing.
func openStore(ctx context.Context, storage, data, databaseURL, schema string) (committer, func() error, error) {
	switch storage {
	case "memory":
		return nil, func() error { return nil }, nil
	case "sqlite":
		return openSQLite(ctx, data)
	case "postgres":
		return openPostgres(ctx, databaseURL, schema)
	}
	return nil, nil, fmt.Errorf("unknown storage %q, want memory, sqlite or postgres", storage)
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
