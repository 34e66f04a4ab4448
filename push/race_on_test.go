//go:build race

package push

// raceShare divides the number of simulations: the race detector makes
// them about eight times slower.
const raceShare = 8
