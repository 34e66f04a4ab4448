//go:build race

package webhook

// raceShare is the divisor of the number of simulations, which are about eight times slower
// with the race detector.
const raceShare = 32

// testSizes omits the largest size, which runs the same code as the others.
func testSizes[T any](all ...T) []T { return all[:len(all)-1] }
