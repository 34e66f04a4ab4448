//go:build race

package sqlite

// underRace says that SQLite, which is Go here, runs about ten times slower.
const underRace = true
