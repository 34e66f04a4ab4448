// Conformance is the agent that the official A2A conformance kits test. It has a profile for
// each configuration that the kits need.
//
//	go run ./examples/conformance -profile v10 -addr 127.0.0.1:3773
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/backend/inmem"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run serves the profile that args select until ctx is done.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:3773", "listen `address`")
	url := flags.String("url", "", "`URL` on the agent card (default the address of the request)")
	data := flags.String("data", "", "`directory` of the SQLite store (default in memory)")
	name := flags.String("profile", "v03", "`name` of the profile:"+profiles())
	if err := flags.Parse(args); err != nil {
		return err
	}
	profile, err := conformance.ProfileByName(*name)
	if err != nil {
		return err
	}
	cfg := holdfast.Config{Card: a2a.AgentCard{URL: *url}, DataDir: *data, Logger: slog.New(slog.NewTextHandler(stderr, nil))}
	if *data == "" {
		cfg.Store = inmem.New()
	}
	agent, err := profile.Agent(cfg)
	if err != nil {
		return err
	}
	return agent.ListenAndServe(ctx, *addr)
}

// profiles lists the profiles for the help text.
func profiles() (text string) {
	for _, p := range conformance.Profiles() {
		text += fmt.Sprintf("\n%-12s %s", p.Name, p.Summary)
	}
	return text
}
