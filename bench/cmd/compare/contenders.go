package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// program is one of the binaries that contenders run.
type program string

const (
	refserver program = "refserver"
	holdfast  program = "holdfast"
	hooks     program = "hooks"
)

// Names of the contenders that others are related to.
const (
	echo     = "echo"
	official = "official"

	floorJSON     = "floor"
	floorSQLite   = "floor-sqlite"
	floorPostgres = "floor-postgres"
)

// contender is a server to measure.
type contender struct {
	name    string
	program program
	// storage is what it keeps its store in, "" when it has no choice.
	storage string
	// args is its command line; it must serve JSON-RPC at http://addr/. Flags name
	// its store.
	args func(addr string, flags []string) []string
	// lacks says why a scenario is not run with it.
	lacks map[loadgen.Scenario]string
	// fill prepares the store that flags name before the start; nil leaves it empty.
	fill func(ctx context.Context, flags []string) error
}

// Kinds of storage.
const (
	storageMemory   = "memory"
	storageSQLite   = "sqlite"
	storagePostgres = "postgres"
)

// contenders returns all in the order of the table. To add a server, add it
// here, and its goals in goals.go.
func contenders() []contender {
	return []contender{
		{
			// Measured with the echo scenario in every row: the floor.
			name:    echo,
			program: refserver,
			args:    func(addr string, _ []string) []string { return []string{"-kind", "echo", "-addr", addr} },
		},
		{
			name:    official,
			program: refserver,
			args:    func(addr string, _ []string) []string { return []string{"-kind", "official", "-addr", addr} },
			lacks: map[loadgen.Scenario]string{
				loadgen.List:     "its in-memory store lists nothing without authentication, which it has no way to set",
				loadgen.Contexts: "it has no such method",
			},
		},
		floor(floorJSON, storageMemory),
		floor(floorSQLite, storageSQLite),
		floor(floorPostgres, storagePostgres),
		ours(storageMemory),
		ours(storageSQLite),
		ours(storagePostgres),
	}
}

func contenderNames() (names []string) {
	for _, c := range contenders() {
		names = append(names, c.name)
	}
	return names
}

// onlySends is why a floor lacks all other scenarios; tables leave it out.
const onlySends = "it only answers message/send"

// floor is a bare server that commits as often as Holdfast does with a kind of storage.
func floor(name, storage string) contender {
	c := contender{
		name: name, program: refserver, storage: storage, lacks: map[loadgen.Scenario]string{},
		args: func(addr string, flags []string) []string {
			return append([]string{"-kind", "floor", "-addr", addr}, flags...)
		},
	}
	for _, s := range loadgen.Scenarios() {
		if s != loadgen.Send {
			c.lacks[s] = onlySends
		}
	}
	return c
}

// ours is Holdfast with a kind of storage.
func ours(storage string) contender {
	return contender{
		name:    "holdfast-" + storage,
		program: holdfast,
		storage: storage,
		args: func(addr string, flags []string) []string {
			return append([]string{"serve", "--addr", addr, "--agent", "echo"}, flags...)
		},
	}
}

// scenario returns what to run with c when the others run s.
func (c contender) scenario(s loadgen.Scenario) loadgen.Scenario {
	if c.name == echo {
		return loadgen.Echo
	}
	return s
}

// errAbsent is why a contender is missing without that being a failure.
var errAbsent = errors.New("does not exist")

// binary returns the path of a program, built on first use.
func (b *bench) binary(ctx context.Context, p program) (string, error) {
	if path := b.programs[p]; path != "" {
		return path, nil
	}
	path := filepath.Join(b.dir, string(p))
	module, pkg := "github.com/holdfast-dev/holdfast/bench", "./cmd/"+string(p)
	if p == holdfast {
		// Built in its own module, with its own choice of dependencies.
		module, pkg = "github.com/holdfast-dev/holdfast", "./cmd/holdfast"
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find module %s (run this in bench/): %w", module, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	build.Dir = strings.TrimSpace(string(dir))
	if _, err := os.Stat(filepath.Join(build.Dir, pkg)); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s %w", pkg, errAbsent)
	}
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %s", pkg, firstLine(text))
	}
	b.programs[p] = path
	return path, nil
}

func firstLine(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return "no output"
}
