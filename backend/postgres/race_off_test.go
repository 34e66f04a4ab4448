//go:build services && !race

package postgres

const underRace = false
