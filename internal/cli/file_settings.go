package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// fileFlags are the settings of files that messages name by URI. Where requests may go is
// in part what egressFlags say.
type fileFlags struct {
	FetchFiles     bool          `negatable:"" default:"true" envvar:"HOLDFAST_FETCH_FILES" group:"Files by URI:" help:"Fetch the files that messages name by URI, for the summarizer. On by default; with --no-fetch-files messages with such files are rejected. Programs of --exec get the URI."`
	FileAllowNets  []string      `name:"file-allow-nets" placeholder:"CIDR" envvar:"HOLDFAST_FILE_ALLOW_NETS" group:"Files by URI:" help:"Networks that files may be in although they are not public, such as 10.1.0.0/16; again for more. Whoever may send a message may be told what is there. Default: none."`
	FileAllowHosts []string      `name:"file-allow-hosts" placeholder:"HOST:PORT" envvar:"HOLDFAST_FILE_ALLOW_HOSTS" group:"Files by URI:" help:"Hosts, each with a port, that may be called for files whatever they resolve to; again for more. Default: none."`
	FileMax        size          `placeholder:"SIZE" envvar:"HOLDFAST_FILE_MAX" default:"10MiB" group:"Files by URI:" help:"The largest file that is fetched. Default: ${default}."`
	FileAtOnce     int           `placeholder:"N" envvar:"HOLDFAST_FILE_AT_ONCE" default:"64" group:"Files by URI:" help:"How many files are fetched at once, 2 or more; with tokens one owner fetches half of them. Others wait. Default: ${default}."`
	FileTimeout    time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_FILE_TIMEOUT" default:"30s" group:"Files by URI:" help:"The longest that fetching one may take. Default: ${default}."`
}

// check tells all that is wrong.
func (f *fileFlags) check() error {
	var errs []error
	parseAllowed(&errs, "--file-allow-nets", safehttp.PolicyParams{AllowNets: f.FileAllowNets})
	parseAllowed(&errs, "--file-allow-hosts", safehttp.PolicyParams{AllowHosts: f.FileAllowHosts})
	if f.FileAtOnce < 2 {
		errs = append(errs, fmt.Errorf("--file-at-once is %d, want 2 or more", f.FileAtOnce))
	}
	if d := f.FileTimeout; d < shortestTimeout || d > longestFetch {
		errs = append(errs, fmt.Errorf("--file-timeout is %s, want %s to %s", d, shortestTimeout, longestFetch))
	}
	return errors.Join(errs...)
}

const longestFetch = 10 * time.Minute

// config is that of the library.
func (f *fileFlags) config() holdfast.Files {
	return holdfast.Files{
		Off: !f.FetchFiles, AllowNets: f.FileAllowNets, AllowHosts: f.FileAllowHosts, MaxBytes: int64(f.FileMax), Timeout: f.FileTimeout, AtOnce: f.FileAtOnce,
	}
}
