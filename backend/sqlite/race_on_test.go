//go:build race

package sqlite

// underRace reports that the race detector is on. SQLite, compiled to Go, is then about
// ten times slower.
const underRace = true
