// Command holdfast runs durable A2A agents and is a client for A2A servers.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	os.Exit(cli.Main(context.Background(), cli.Program{
		Args: cli.HideSecrets(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Signals: signals,
	}))
}
