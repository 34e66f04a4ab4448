// Package push tells webhooks what becomes of tasks: every event, in order, signed,
// until it has arrived or is a dead letter that can be sent again.
//
// It reads the logs that the engine writes, through the lanes of package store; the two
// do not know each other. What a webhook is told, its ids included, follows from the log
// alone, so it is the same for every attempt, replica and restart.
package push
