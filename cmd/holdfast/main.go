// Command holdfast runs durable A2A agents and is a client for A2A servers. It has the parts with
// small libraries; the command holdfast-full of the module server/grpc has all.
package main

import (
	"os"

	"github.com/holdfast-dev/holdfast/cli"
)

func main() { os.Exit(cli.Process(cli.Parts{})) }
