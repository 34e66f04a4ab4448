// Package faults shows what happens to servers when things go wrong: processes are
// killed or suspended, disks fill up, handlers misbehave, the database restarts or
// is out of reach, receivers of webhooks fail. Its tests start real processes and take minutes, so they are
// behind the build tag faults; make faults runs them, and FAULTS_LONG=5 has those
// with a database take five times as long. Program agent is the server they start,
// package check proves the store that servers left behind. TestChaos combines all
// faults at random; FAULTS_CHAOS=10m sets how long it injects them.
// TestAttacks has hostile owners attack a server within 512 MiB; FAULTS_ATTACK=10m sets for how long.
package faults
