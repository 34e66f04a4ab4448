package vector

import "math"

// Score returns the score of an embedding for a query; see [Metric]. Both have the same dimension.
func (m Metric) Score(query, embedding []float32) float64 {
	var dot, a, b, squares float64
	for i := range query {
		x, y := float64(query[i]), float64(embedding[i])
		dot, a, b, squares = dot+x*y, a+x*x, b+y*y, squares+(x-y)*(x-y)
	}
	switch m {
	case Dot:
		return dot
	case L2:
		return 1 / (1 + math.Sqrt(squares))
	default:
		// Rounded, so that vectors of the same direction have the same score.
		return max(-1, min(1, float64(float32(dot/math.Sqrt(a*b)))))
	}
}
