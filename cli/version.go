package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/webhook"
)

// version is set by the linker for releases. Other builds use the version that the go command has
// recorded.
var version string

// build describes the program's build.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Built   string `json:"commitTime,omitempty"`
	Go      string `json:"go"`
	SQLite  string `json:"sqlite"`
	OS      string `json:"platform"`
}

func readBuild() build {
	b := build{Version: version, Go: runtime.Version(), SQLite: sqlite3.SQLITE_VERSION, OS: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				b.Commit = s.Value
			case s.Key == "vcs.time":
				b.Built = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				b.Commit += " and changes"
			}
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "dev"
	}
	return b
}

// userAgent returns the User-Agent of requests to servers and webhooks.
func userAgent() string { return webhook.UserAgent("holdfast", readBuild().Version) }

// versionFlag is the --version flag.
type versionFlag bool

// BeforeReset prints the version instead of running a command.
func (versionFlag) BeforeReset(a *app, k *kong.Kong) error {
	k.Exit(0)
	return versionCmd{}.Run(a)
}

type versionCmd struct{}

// Run shows the version.
func (versionCmd) Run(a *app) error {
	b := readBuild()
	if a.JSON {
		raw, err := json.Marshal(b)
		if err != nil {
			return err
		}
		a.Out.JSON(raw)
		return nil
	}
	a.Out.Line("holdfast %s", b.Version)
	if b.Commit != "" {
		a.Out.Line("  commit  %s", b.Commit)
	}
	a.Out.Line("  go      %s %s", b.Go, b.OS)
	a.Out.Line("  sqlite  %s", b.SQLite)
	return nil
}
