package holdfast

import "runtime/debug"

const modulePath = "github.com/holdfast-dev/holdfast"

// moduleVersion returns the version of this module in a program, or "dev" if it is unknown.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil {
		return "dev"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "dev"
}
