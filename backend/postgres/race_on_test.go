//go:build race

package postgres

// underRace reports that the race detector makes everything some times slower.
const underRace = true
