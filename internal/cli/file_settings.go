package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// fileFlags has the settings of files that messages reference by URI. The settings RequireHTTPS,
// EgressProxy and NAT64 of egressFlags apply to files too.
type fileFlags struct {
	FetchFiles     bool          `negatable:"" default:"true" envvar:"HOLDFAST_FETCH_FILES" group:"Files by URI:" help:"Fetch files that messages reference by URI, for the summarizer (default on). With --no-fetch-files, messages with such files are rejected. Programs of --exec receive the URI."`
	FileAllowNets  []string      `name:"file-allow-nets" placeholder:"CIDR" envvar:"HOLDFAST_FILE_ALLOW_NETS" group:"Files by URI:" help:"Allow files in this non-public network, such as 10.1.0.0/16. Every client that may send messages can then read files there. Repeatable (default none)."`
	FileAllowHosts []string      `name:"file-allow-hosts" placeholder:"HOST:PORT" envvar:"HOLDFAST_FILE_ALLOW_HOSTS" group:"Files by URI:" help:"Allow files from this HOST:PORT whatever address it resolves to. Repeatable (default none)."`
	FileMax        size          `placeholder:"SIZE" envvar:"HOLDFAST_FILE_MAX" default:"10MiB" group:"Files by URI:" help:"Maximum size of a fetched file (default ${default})."`
	FileAtOnce     int           `placeholder:"N" envvar:"HOLDFAST_FILE_AT_ONCE" default:"64" group:"Files by URI:" help:"Maximum number of files that are fetched concurrently, 2 or more; with tokens, half of it for one owner. Further files wait (default ${default})."`
	FileTimeout    time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_FILE_TIMEOUT" default:"30s" group:"Files by URI:" help:"Timeout for fetching a file (default ${default})."`
}

// check returns all invalid settings.
func (f *fileFlags) check() error {
	var errs []error
	parsePolicy(&errs, "--file-allow-nets", safehttp.PolicyParams{AllowNets: f.FileAllowNets})
	parsePolicy(&errs, "--file-allow-hosts", safehttp.PolicyParams{AllowHosts: f.FileAllowHosts})
	if f.FileAtOnce < 2 {
		errs = append(errs, fmt.Errorf("--file-at-once is %d, want 2 or more", f.FileAtOnce))
	}
	if d := f.FileTimeout; d < shortestTimeout || d > longestFetch {
		errs = append(errs, fmt.Errorf("--file-timeout is %s, want %s to %s", d, shortestTimeout, longestFetch))
	}
	return errors.Join(errs...)
}

const longestFetch = 10 * time.Minute

// config returns the configuration of the library.
func (f *fileFlags) config() holdfast.Files {
	return holdfast.Files{
		Off: !f.FetchFiles, AllowNets: f.FileAllowNets, AllowHosts: f.FileAllowHosts, MaxBytes: int64(f.FileMax), Timeout: f.FileTimeout, Concurrency: f.FileAtOnce,
	}
}
