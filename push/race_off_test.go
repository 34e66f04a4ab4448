//go:build !race

package push

// raceShare is the divisor of the number of simulations, which are all run.
const raceShare = 1
