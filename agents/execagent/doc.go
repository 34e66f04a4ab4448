// Package execagent runs a program as the handler of an agent: one process per turn, which
// exchanges lines of JSON on its standard input and output. docs/exec.md specifies the
// protocol.
//
// # Guarantees
//
// A program that crashes, hangs, floods, prints invalid output or leaves processes behind
// fails only its own task, with a message that states the reason. Each turn uses memory in
// proportion to Config.MaxLine. When a turn ends, no process of the program's process group
// remains; on Linux the program also ends if the server is killed. Only processes that leave
// the process group (setsid) can remain.
//
// # Concurrency
//
// The handler can run any number of turns at once. No shell is involved unless the command
// names one.
package execagent
