//go:build !race

package push

// raceShare is the divisor of the number of simulations, which are all run.
const raceShare = 1

// sizes are those that a test has.
func sizes[T any](all ...T) []T { return all }
