// Package execagent makes any program the handler of an agent: one process per
// turn, talked to in lines of JSON on its standard input and output. The
// protocol is docs/exec.md.
//
// # Guarantees
//
// A program that dies, hangs, floods, prints garbage or forks what outlives it
// fails its own task, with a message that says so, and nothing else. Memory is
// bounded by Config.MaxLine per turn. When a turn ends nothing of the program's
// process group is left; on Linux the program also ends with a server that is
// killed. Only what has left the process group (setsid) escapes.
//
// # Concurrency
//
// The handler may run any number of turns at once. No shell is involved unless
// the command names one.
package execagent
