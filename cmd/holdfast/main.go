// Command holdfast runs durable A2A agents and is a client for A2A servers.
package main

import (
	"os"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

func main() { os.Exit(cli.Process(nil)) }
