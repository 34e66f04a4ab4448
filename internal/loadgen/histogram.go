package loadgen

import (
	"math"
	"math/bits"
	"time"
)

// A value below 2^subBits has a bucket of its own; above, each power of two is
// cut into 2^subBits equal buckets, so that half a bucket is at most 0.4 % of
// the value.
const (
	subBits    = 7
	subBuckets = 1 << subBits
	topBits    = 42 // 2^42 ns are 73 minutes
	numBuckets = (topBits - subBits + 1) * subBuckets
)

// histogram counts durations in buckets of logarithmic width. The zero value
// is empty. It is not safe for concurrent use.
type histogram struct {
	counts [numBuckets]uint64
	n      uint64
	max    time.Duration
}

func (h *histogram) record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

func (h *histogram) add(o *histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// quantile returns the smallest recorded duration which at least the share q
// of all does not exceed, within 0.4 %. It is 0 for an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(h.n))), 1)
	var seen uint64
	for i, c := range h.counts {
		seen += c
		if c > 0 && seen >= rank {
			return min(bucketMiddle(i), h.max)
		}
	}
	return h.max
}

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	i := shift<<subBits + int(v>>shift)
	return min(i, numBuckets-1)
}

func bucketMiddle(i int) time.Duration {
	if i < 2*subBuckets {
		return time.Duration(i)
	}
	shift := i>>subBits - 1
	low := uint64(i&(subBuckets-1)|subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}
