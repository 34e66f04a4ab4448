// Package pgtest gives tests a real PostgreSQL: the shared one that scripts/services runs (URL), or a private one that a test
// stops, suspends and breaks (Start), in a temporary directory and on a port of its own.
//
// Nothing is skipped: if no server can be started, the test fails and names what to install. Tests that need a server
// are built with the tag "services" only. Servers end with the process that started them, even if it is killed: a
// watchdog reads a pipe, which closes with the process.
package pgtest
