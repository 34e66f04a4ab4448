// Package faults tests servers under faults: processes are killed or suspended, disks fill up,
// handlers misbehave, the database restarts or is unreachable, webhook receivers fail. The tests
// start real processes and take minutes, so they have the build tag faults. To run them, use
// "make faults"; FAULTS_LONG=5 makes those with a database five times as long.
// They wait for results with package await, and sleep only for the length of a fault, of a load or
// of a pause between requests: real processes and databases need real time. A grace period ends by a state that a test
// reads, such as a closed connection or an idle server, and handlers run until a test releases them, so that no
// result depends on the load of the machine.
//
// Program agent is the server under test. Package check checks the stores that servers leave.
// TestChaos combines all faults at random for the duration FAULTS_CHAOS. TestAttacks attacks a
// server within 512 MiB for the duration FAULTS_ATTACK, such as 10m.
package faults
