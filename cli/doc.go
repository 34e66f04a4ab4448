// Package cli implements the holdfast command: serve, send, tasks, call, card, version, help
// and others.
//
// # Concepts
//
// A program of one line is the command: os.Exit(cli.Process(cli.Parts{})). With [Parts] it adds kinds of storage,
// contracts with their commands, suites and gRPC; cmd/holdfast, cmd/holdfast-check and holdfast-full differ in them only.
//
// [Main] runs one command with the given arguments, streams and environment, and returns the
// exit code. Tests can therefore run commands in process. Only the result of a command goes to
// stdout; messages and errors go to stderr. With --json both are JSON.
//
// # Errors
//
// An error is one line with the cause, if known a second line with a hint, and an exit code
// from the table in exit.go.
package cli
