//go:build !unix

package pgtest

import "errors"

// Config is the configuration of a server.
type Config struct {
	Fsync, Extensions bool
	Dir               string
	Settings          map[string]string
}

// Server is a PostgreSQL of this process.
type Server struct{}

// Start fails: private servers need Unix.
func Start(Config) (*Server, error) {
	return nil, errors.New("a PostgreSQL for tests is needed: name a server in " + URLVariable)
}

// URL names the server.
func (*Server) URL() string { return "" }

// Close does nothing.
func (*Server) Close() error { return nil }
