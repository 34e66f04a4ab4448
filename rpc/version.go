package rpc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// codecFor returns the codec of an announced protocol version, nil if no codec has it. Patch
// versions do not matter, nor do minor versions from 1.0 on.
func (t *Table) codecFor(announced string) Codec {
	v := parseVersion(announced)
	for _, codec := range t.codecs {
		if v != nil && slices.Equal(parseVersion(codec.Version()), v) {
			return codec
		}
	}
	return nil
}

// checkVersion checks the version that the client announces against the codec of the call. The
// announced version may be older than the codec's, because clients announce old versions by
// default.
func (t *Table) checkVersion(c *Call, name string) error {
	if c.Version == "" {
		return nil
	}
	announced := t.codecFor(c.Version)
	if announced == nil {
		names := make([]string, len(t.codecs))
		for i, codec := range t.codecs {
			names[i] = codec.Version()
		}
		return a2a.Errorf(a2a.CodeVersionNotSupported, "A2A-Version %s is not supported, want %s", a2a.Quote(c.Version), strings.Join(names, " or "))
	}
	if own := c.Codec.Version(); slices.Compare(parseVersion(own), parseVersion(announced.Version())) < 0 {
		c.row, c.Codec, c.Method = nil, announced, nil
		return a2a.Errorf(a2a.CodeMethodNotFound, "method %s is of A2A %s and not found in A2A-Version %s", a2a.Quote(name), own, a2a.Quote(c.Version))
	}
	return nil
}

// minor returns the minor version of a version of A2A 1, 0 for other versions.
func minor(version string) int {
	if numbers := parseNumbers(version); len(numbers) > 1 && numbers[0] == 1 {
		return numbers[1]
	}
	return 0
}

// parseVersion returns the numbers of a version that select a codec: [0 minor] before 1.0, otherwise
// [major]. It returns nil if the version is invalid.
func parseVersion(version string) []int {
	numbers := parseNumbers(version)
	if len(numbers) == 0 {
		return nil
	}
	if numbers[0] > 0 {
		return numbers[:1]
	}
	return numbers[:min(2, len(numbers))]
}

// parseNumbers returns the up to three numbers of a version, nil if it is invalid.
func parseNumbers(version string) []int {
	parts := strings.Split(version, ".")
	if len(parts) > 3 {
		return nil
	}
	numbers := make([]int, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return nil
		}
		numbers[i] = int(n)
	}
	return numbers
}
