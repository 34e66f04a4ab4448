// Command refserver runs one of the servers that Holdfast is measured against.
//
//	refserver -kind echo|official [-addr 127.0.0.1:0]
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "refserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("refserver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kind := flags.String("kind", "", "server to run: echo or official")
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on")
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
	default:
		return errors.Join(fmt.Errorf("unknown kind %q, want echo or official", *kind), l.Close())
	}
	if _, err := fmt.Fprintln(stdout, url); err != nil {
		return errors.Join(err, l.Close())
	}
	return serve(ctx, l, h)
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
