package memory

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// Limit returns the number of bytes of memory that this process may use before the system kills
// it: the smallest limit of its cgroups (version 1 or 2), or the memory of the machine. It is 0 if
// neither is known.
func Limit() int64 { return limit(os.ReadFile) }

// Least is the minimum memory of a process, in bytes.
const Least = 64 << 20

// Default returns the default memory of a process in bytes: three quarters of [Limit] but at
// least [Least], or 1 GiB if Limit is unknown.
func Default() int64 {
	if most := Limit(); most > 0 {
		return max(most/4*3, Least)
	}
	return 1 << 30
}

// OfProcess returns the budget of a process that may use the given number of bytes: half of them.
// The rest is for garbage, stacks, connections, the caches of the store and small values.
func OfProcess(bytes int64) *Budget { return New(bytes / 2) }

// ReadCache returns the default size of the cache of encoded tasks in a process with a budget: 32 MiB, but at
// most 1/8 of the budget.
func ReadCache(b *Budget) int64 { return min(32<<20, b.Share()/4) }

func limit(read func(string) ([]byte, error)) int64 {
	var least int64
	note := func(n int64, ok bool) {
		if ok && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if info, err := read("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
				n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				note(n<<10, err == nil)
			}
		}
	}
	groups, err := read("/proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			if fields[1] != "memory" {
				continue
			}
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// The limits of parent groups apply too. Within a container the path may exist only on
		// the host; the root is then the container's own group.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if text, err := read(path.Join(root, group, file)); err == nil {
				n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
				note(n, err == nil)
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
