// Package faults shows what happens to a server when things go wrong: processes
// are killed, disks fill up, handlers misbehave. Its tests start real processes
// and take minutes, so they are behind the build tag faults; make faults runs
// them. Program agent is the server they start, package check proves the store
// that a server left behind.
package faults
