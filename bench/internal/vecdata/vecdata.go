// Package vecdata generates embeddings with the structure of real ones: clusters of unequal size
// that lie in few of the dimensions, with noise in all of them.
package vecdata

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Intrinsic is the number of dimensions in which vectors differ, apart from noise.
const Intrinsic = 32

// Generator generates vectors of unit length. Equal params give equal vectors. Methods are not safe
// for concurrent use.
type Generator struct {
	r       *rand.Rand
	dim     int
	centers [][]float32
	basis   [][]float32
	zipf    *rand.Zipf
}

// New returns a generator of vectors of a dimension in clusters with sizes that follow Zipf's law.
func New(seed uint64, dim, clusters int) *Generator {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // must be repeatable
	g := &Generator{r: r, dim: dim, zipf: rand.NewZipf(r, 1.1, 8, uint64(clusters-1))}
	for range Intrinsic {
		g.basis = append(g.basis, g.normal(1))
	}
	for range clusters {
		g.centers = append(g.centers, g.combination(1))
	}
	return g
}

// ID returns the id of the vector with a number.
func ID(n int) string { return fmt.Sprintf("d%07d", n) }

// Vector returns the next vector, and the number of its cluster.
func (g *Generator) Vector() ([]float32, int) {
	cluster := int(g.zipf.Uint64())
	v, noise := g.combination(0.5), g.normal(0.15)
	var sum float64
	for i := range v {
		v[i] += g.centers[cluster][i] + noise[i]
		sum += float64(v[i]) * float64(v[i])
	}
	norm := float32(math.Sqrt(sum))
	for i := range v {
		v[i] /= norm
	}
	return v, cluster
}

func (g *Generator) normal(scale float64) []float32 {
	v := make([]float32, g.dim)
	for i := range v {
		v[i] = float32(g.r.NormFloat64() * scale / math.Sqrt(float64(g.dim)))
	}
	return v
}

func (g *Generator) combination(scale float64) []float32 {
	v := make([]float32, g.dim)
	for _, b := range g.basis {
		f := float32(g.r.NormFloat64() * scale / math.Sqrt(Intrinsic))
		for i := range v {
			v[i] += f * b[i]
		}
	}
	return v
}
