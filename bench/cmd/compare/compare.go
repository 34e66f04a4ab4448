package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

type options struct {
	rounds      int
	duration    time.Duration
	concurrency int
	payload     int
	scenarios   []loadgen.Scenario
	hooks       []hookLoad
	withStreams bool
	growth      []int
	contexts    []int  // numbers of tasks in the stores in which contexts are listed
	storage     string // storage of -growth
	servers     []string
	snapshot    time.Duration
	databaseURL string
	short       bool
	jsonFile    string
	refserver   string
	holdfast    string
	hooksBinary string
	fullBinary  string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	b := &bench{
		options: o, dir: dir, progress: stderr, open: openDatabase,
		programs: map[program]string{refserver: o.refserver, holdfast: o.holdfast, hooks: o.hooksBinary, holdfastFull: o.fullBinary},
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	var out outcome
	if len(o.growth) > 0 {
		out, err = b.measureGrowth(ctx)
	} else {
		out, err = b.all(ctx)
	}
	if err != nil {
		return err
	}
	if err := out.write(stdout, o); err != nil {
		return err
	}
	return errors.Join(save(o.jsonFile, out), out.verdict(o))
}

// all measures the contenders, and then the loads of PostgreSQL, lists of contexts, and webhooks
// that the options select.
func (b *bench) all(ctx context.Context) (outcome, error) {
	chosen := slices.DeleteFunc(contenders(), func(c contender) bool { return !slices.Contains(b.servers, c.name) || len(b.scenarios) == 0 })
	out, err := b.compare(ctx, chosen)
	if err == nil && b.db != nil && slices.Contains(b.scenarios, loadgen.Send) {
		err = b.shared(ctx, &out)
	}
	if err == nil && len(b.contexts) > 0 && slices.Contains(b.scenarios, loadgen.Contexts) {
		err = b.contextSizes(ctx, &out)
	}
	if err == nil && b.db != nil && b.snapshot > 0 {
		err = b.held(ctx, &out)
	}
	if err == nil && b.withStreams {
		err = b.streams(ctx, &out)
	}
	if err == nil && len(b.hooks) > 0 {
		err = b.webhooks(ctx, &out)
	}
	return out, err
}

// Default scenarios.
const (
	everything = "send,send-get,stream,get,list,contexts,streams,webhooks"
	// Scenarios that create tasks are last, so that the others run on the original number of tasks.
	growing = "get,list,contexts,send,claim"
)

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 3, "rounds per scenario; the median counts")
	flags.DurationVar(&o.duration, "duration", 5*time.Second, "length of a round with one server")
	flags.IntVar(&o.concurrency, "concurrency", 64, "connections")
	flags.IntVar(&o.payload, "payload", loadgen.DefaultPayloadBytes, "bytes of text in a message")
	scenarios := flags.String("scenarios", "", "scenarios to measure, separated by commas (default "+everything+", or with -growth "+growing+"); claim is another name for send-get, webhooks is "+hookNames())
	growth := flags.String("growth", "", "measure stores with these numbers of tasks instead, such as 1000,100000,1000000")
	flags.StringVar(&o.storage, "storage", storageSQLite, "storage of -growth: sqlite or postgres")
	contexts := flags.String("contexts", "1000,100000", "also measure contexts/list in stores with these numbers of tasks, ten per context; empty for none")
	servers := flags.String("servers", strings.Join(contenderNames(), ","), "servers to measure, separated by commas")
	flags.DurationVar(&o.snapshot, "snapshot", 30*time.Second, "how long a transaction prevents PostgreSQL from removing dead rows; 0 for none")
	flags.StringVar(&o.databaseURL, "database-url", "", "URL of a PostgreSQL database to use instead of starting a server; the command removes its data at the end")
	flags.BoolVar(&o.short, "short", false, "one round of less than a second, to check that everything runs; fails on any request error")
	flags.StringVar(&o.jsonFile, "json", "", "also write all reports to this file")
	flags.StringVar(&o.refserver, "refserver", "", "program to use instead of building it")
	flags.StringVar(&o.holdfast, "holdfast", "", "program to use instead of building it")
	flags.StringVar(&o.fullBinary, "holdfast-full", "", "program to use instead of building it")
	flags.StringVar(&o.hooksBinary, "hooks", "", "program to use instead of building it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case *scenarios != "":
	case *growth != "":
		*scenarios = growing
	default:
		*scenarios = everything
	}
	errs := []error{o.selectScenarios(*scenarios)}
	var err error
	if o.growth, err = numbers(*growth); err != nil {
		errs = append(errs, fmt.Errorf("growth: %w", err))
	}
	if o.contexts, err = numbers(*contexts); err != nil {
		errs = append(errs, fmt.Errorf("contexts: %w", err))
	}
	if o.short {
		o.rounds, o.duration, o.snapshot, o.contexts = 1, shortRound, 2*shortRound, []int{100, 1000}
	}
	if o.storage != storageSQLite && o.storage != storagePostgres {
		errs = append(errs, fmt.Errorf("unknown storage %q for -growth, want sqlite or postgres", o.storage))
	}
	o.servers = strings.Split(*servers, ",")
	for _, name := range o.servers {
		if !slices.Contains(contenderNames(), name) {
			errs = append(errs, fmt.Errorf("unknown server %q, want one of %s", name, strings.Join(contenderNames(), ", ")))
		}
	}
	if o.rounds < 1 || o.duration <= 0 || o.concurrency < 1 || o.payload < 1 {
		errs = append(errs, errors.New("rounds, duration, concurrency and payload must be positive"))
	}
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	return o, errors.Join(errs...)
}

// selectScenarios sets the scenarios to measure.
func (o *options) selectScenarios(names string) error {
	var errs []error
	for name := range strings.SplitSeq(names, ",") {
		if name == streamsLoad {
			o.withStreams = true
			continue
		}
		if name == "webhooks" {
			o.hooks = hookLoads()
			continue
		}
		if slices.Contains(hookLoads(), hookLoad(name)) {
			o.hooks = append(o.hooks, hookLoad(name))
			continue
		}
		s := loadgen.Scenario(name)
		if name == "claim" {
			s = loadgen.SendGet
		}
		if !slices.Contains(loadgen.Scenarios(), s) || s == loadgen.Echo {
			errs = append(errs, fmt.Errorf("unknown scenario %q", name))
		}
		o.scenarios = append(o.scenarios, s)
	}
	return errors.Join(errs...)
}

// numbers parses numbers separated by commas and sorts them.
func numbers(text string) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	for number := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a number of 0 or more", number)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all, nil
}

// shortRound is the duration of a round with -short. The whole run must take less than half a
// minute.
const shortRound = 200 * time.Millisecond

func save(file string, out outcome) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// outcome has all results of a run.
type outcome struct {
	Time    time.Time         `json:"time"`
	Machine string            `json:"machine"`
	Missing map[string]string `json:"missing,omitempty"` // contenders that were not measured, with the reason
	Rows    []row             `json:"rows"`

	Database string   `json:"database,omitempty"` // version and settings of PostgreSQL
	Shared   []row    `json:"shared,omitempty"`   // loads of one database; all are blocking sends
	Held     []period `json:"held,omitempty"`     // with a snapshot held open

	Hooks []hookRow `json:"webhooks,omitempty"`

	Streams []streamRow `json:"streams,omitempty"`

	Sizes []outcome `json:"contextSizes,omitempty"` // contexts/list, one outcome per storage

	failed []error  // servers that failed to run
	names  []string // contenders in the order of the table
	goals  []goal
	growth bool
}

// row has the results of one contender in one scenario.
type row struct {
	Scenario  loadgen.Scenario `json:"scenario"`
	Contender string           `json:"contender"`
	Skipped   string           `json:"skipped,omitempty"` // the reason if it was not measured
	Samples   []sample         `json:"samples,omitempty"` // one per round
}

// sample is the result of one round.
type sample struct {
	loadgen.Report
	ServerCPU    time.Duration `json:"serverCPUNs"`    // during the window; 0 if unknown
	GeneratorCPU time.Duration `json:"generatorCPUNs"` // during the window; 0 if unknown

	// Cost of PostgreSQL during the window.
	DatabaseCPU time.Duration `json:"databaseCPUNs,omitempty"`
	Commits     int64         `json:"commits,omitempty"` // including the commits of read-only transactions
	WALBytes    int64         `json:"walBytes,omitempty"`
}

func newOutcome(names []string) outcome {
	return outcome{
		Time:    time.Now().UTC(),
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Missing: map[string]string{},
		names:   names,
	}
}

func (r row) errors() (n int64) {
	for _, s := range r.Samples {
		n += s.Errors
	}
	return n
}

// median returns the median of one figure over the rounds, 0 if there are none.
func median[T int | int64 | float64 | time.Duration](samples []sample, figure func(sample) T) T {
	if len(samples) == 0 {
		return 0
	}
	var all []T
	for _, s := range samples {
		all = append(all, figure(s))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func rate(s sample) float64 { return s.PerSecond }

// verdict returns the error with which the command ends.
func (o outcome) verdict(opts options) error {
	errs := o.failed
	for _, s := range o.Sizes {
		errs = append(errs, s.verdict(opts))
	}
	for _, r := range slices.Concat(o.Rows, o.Shared) {
		if n := r.errors(); n > 0 && opts.short {
			errs = append(errs, fmt.Errorf("%s of %s: %d errors, such as: %s", r.Scenario, r.Contender, n, r.firstError()))
		}
	}
	for _, r := range o.Hooks {
		if n := r.wrong(); n > 0 && opts.short {
			errs = append(errs, fmt.Errorf("%s %s: %d events out of order or unsigned", r.Load, r.Storage, n))
		}
	}
	return errors.Join(errs...)
}

func (r row) firstError() string {
	for _, s := range r.Samples {
		if len(s.ErrorTexts) > 0 {
			return s.ErrorTexts[0].Text
		}
	}
	return ""
}
