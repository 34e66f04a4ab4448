// Package cli is the holdfast command: serve, send, tasks, call, card, bench,
// version and help.
//
// # Concepts
//
// [Main] runs one command with the arguments, streams and environment it is
// given, and returns the exit code, so that tests run the real thing in process.
// The result of a command goes to stdout and nothing else does; what is said
// about it goes to stderr. Both are for people, and for scripts with --json.
//
// # Errors
//
// Every error has a line that says what is wrong and, where that is known, what
// to do next, and an exit code from the table in exit.go.
package cli
