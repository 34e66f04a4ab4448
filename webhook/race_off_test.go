//go:build !race

package webhook

// raceShare is the divisor of the number of simulations: all are run.
const raceShare = 1

// testSizes returns all sizes of a test.
func testSizes[T any](all ...T) []T { return all }
