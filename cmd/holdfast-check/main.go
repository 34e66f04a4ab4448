// Command holdfast-check is the command holdfast with conformance suites for stores.
//
//	go run ./cmd/holdfast-check storage check redis://127.0.0.1:6379
package main

import (
	"os"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/cli/full"
	"github.com/holdfast-dev/holdfast/cli/suites"
)

func main() {
	parts := full.Parts()
	parts.Suites = suites.Of()
	os.Exit(cli.Process(parts))
}
