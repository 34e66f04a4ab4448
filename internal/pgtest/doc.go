// Package pgtest gives tests a real PostgreSQL: the one that the environment
// variable HOLDFAST_TEST_POSTGRES_URL names, else a private one for the test
// process, in a temporary directory and on a port of its own.
//
// Nothing is skipped: where no server can be had, the test fails and says what to
// install. A private server ends with the process that started it, however that
// ends: a watchdog waits at the other end of a pipe.
package pgtest
