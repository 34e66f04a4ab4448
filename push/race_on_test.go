//go:build race

package push

// raceShare divides the number of simulations: the race detector makes
// them about eight times slower.
const raceShare = 32

// sizes leaves out the largest size, which takes the same paths as the others.
func sizes[T any](all ...T) []T { return all[:len(all)-1] }
