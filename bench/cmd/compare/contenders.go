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

// program is one of the programs that contenders run.
type program string

const (
	refserver program = "refserver"
	holdfast  program = "holdfast"
	hooks     program = "hooks"

	// holdfastFull is Holdfast with all parts, which is in a module of its own.
	holdfastFull program = "holdfast-full"
)

// Names of the contenders with which others are compared.
const (
	echo       = "echo"
	official   = "official"
	official10 = "official-1.0"

	officialGRPC = "official-grpc"

	floorJSON     = "floor"
	floorSQLite   = "floor-sqlite"
	floorPostgres = "floor-postgres"
)

// contender is a server to measure.
type contender struct {
	name    string
	program program
	// storage is the kind of its storage, "" if it has no choice.
	storage string
	// binding is how requests are made; "" is JSON-RPC of A2A 0.3. They are made to http://addr/
	// and path.
	binding loadgen.Binding
	path    string
	// grpcFlag is the flag with the address of the gRPC server; "" if it has none. Requests of
	// gRPC are made to that address.
	grpcFlag string
	// args returns its command line. flags select its store.
	args func(addr string, flags []string) []string
	// lacks has the scenarios that are not measured with it, and the reasons.
	lacks map[loadgen.Scenario]string
	// fill fills the store that flags select before the server starts; nil leaves it empty.
	fill func(ctx context.Context, flags []string) error
}

// Kinds of storage.
const (
	storageMemory   = "memory"
	storageSQLite   = "sqlite"
	storagePostgres = "postgres"
)

// contenders returns all contenders in the order of the table. To add a server, add it here, and
// its goals in goals.go.
func contenders() []contender {
	return []contender{
		{
			// Every row compares with its echo scenario, the baseline.
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
		official1(official10, loadgen.JSONRPC10, ""),
		official1("official-rest", loadgen.REST10, "rest"),
		overGRPC(official1(officialGRPC, loadgen.GRPC10, ""), "-grpc-addr"),
		floor(floorJSON, storageMemory),
		floor(floorSQLite, storageSQLite),
		floor(floorPostgres, storagePostgres),
		ours(storageMemory),
		ours(storageSQLite),
		ours(storagePostgres),
		ours1(storageMemory, "-1.0", loadgen.JSONRPC10),
		ours1(storageMemory, "-rest", loadgen.REST10),
		overGRPC(ours1(storageMemory, "-grpc", loadgen.GRPC10), "--grpc-listen"),
		ours1(storageSQLite, "-1.0", loadgen.JSONRPC10),
		ours1(storageSQLite, "-rest", loadgen.REST10),
	}
}

// official1 returns the server of the official SDK for A2A 1.0.
func official1(name string, binding loadgen.Binding, path string) contender {
	return of1(contender{
		name: name, program: refserver, binding: binding, path: path,
		args: func(addr string, flags []string) []string {
			return append([]string{"-kind", official10, "-addr", addr}, flags...)
		},
	})
}

// ours1 returns Holdfast with a kind of storage and requests of A2A 1.0.
func ours1(storage, suffix string, binding loadgen.Binding) contender {
	c := ours(storage)
	c.name += suffix
	c.binding = binding
	return of1(c)
}

// of1 limits a contender to the scenarios that are measured with A2A 1.0.
func of1(c contender) contender {
	c.lacks = map[loadgen.Scenario]string{loadgen.SendGet: only03, loadgen.List: only03, loadgen.Contexts: only03}
	return c
}

// overGRPC returns c with requests over gRPC.
func overGRPC(c contender, flag string) contender {
	c.grpcFlag = flag
	if c.program == holdfast {
		c.program = holdfastFull
	}
	c.lacks[loadgen.Stream] = onlyUnary
	return c
}

// onlyUnary is the reason why streams are not measured over gRPC; tables omit it.
const onlyUnary = "only unary calls are measured over gRPC"

// only03 is the reason why the servers of A2A 1.0 have no other scenarios; tables omit it.
const only03 = "it is measured with A2A 0.3"

func contenderNames() (names []string) {
	for _, c := range contenders() {
		names = append(names, c.name)
	}
	return names
}

// onlySends is the reason why a floor has no other scenarios; tables omit it.
const onlySends = "it only answers message/send"

// floor returns a bare server that commits as often as Holdfast with a kind of storage.
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

// ours returns Holdfast with a kind of storage.
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

// scenario returns the scenario to run with c while others run s.
func (c contender) scenario(s loadgen.Scenario) loadgen.Scenario {
	if c.name == echo {
		return loadgen.Echo
	}
	return s
}

// errAbsent means that a contender is missing, which is not a failure.
var errAbsent = errors.New("does not exist")

// binary returns the path of a program, which it builds on first use.
func (b *bench) binary(ctx context.Context, p program) (string, error) {
	if path := b.programs[p]; path != "" {
		return path, nil
	}
	path := filepath.Join(b.dir, string(p))
	module, pkg := "github.com/holdfast-dev/holdfast/bench", "./cmd/"+string(p)
	// Programs are built in their own module, with its dependencies.
	sub := ""
	if p == holdfast || p == holdfastFull {
		module, pkg = "github.com/holdfast-dev/holdfast", "./cmd/"+string(p)
	}
	if p == holdfastFull {
		sub = filepath.Join("server", "grpc") // a module that is not a dependency of this one
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find module %s (run this in bench/): %w", module, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	build.Dir = filepath.Join(strings.TrimSpace(string(dir)), sub)
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
