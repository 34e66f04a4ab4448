// Package pgtest gives tests a real PostgreSQL: the shared one that scripts/services runs (URL), or a private one that a test
// stops, suspends and breaks (Start), in a temporary directory and on a port of its own.
//
// Nothing is skipped: where no server can be had, the test fails and says what to install. Tests that need a server are
// built with the tag "services" only. Servers end with the process that started them, however that ends: a watchdog waits at
// the other end of a pipe.
package pgtest
