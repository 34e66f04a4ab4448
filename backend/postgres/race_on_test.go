//go:build services && race

package postgres

// underRace reports whether the race detector is enabled, which slows tests down.
const underRace = true
