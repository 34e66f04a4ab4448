package holdfast

import (
	"runtime/debug"
	"testing"
)

func TestModuleVersion(t *testing.T) {
	t.Parallel()
	module := func(path, version string) *debug.Module { return &debug.Module{Path: path, Version: version} }
	replaced := module(modulePath, "v1.2.3")
	replaced.Replace = module("example.com/fork", "v1.2.4")
	local := module(modulePath, "v1.2.3")
	local.Replace = module("../holdfast", "")
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"no build info":      {nil, "dev"},
		"the program":        {&debug.BuildInfo{Main: *module(modulePath, "v1.2.3")}, "v1.2.3"},
		"not a release":      {&debug.BuildInfo{Main: *module(modulePath, "(devel)")}, "dev"},
		"no version":         {&debug.BuildInfo{Main: *module(modulePath, "")}, "dev"},
		"in another program": {&debug.BuildInfo{Main: *module("example.com/a", "v9.0.0"), Deps: []*debug.Module{module("example.com/b", "v8.0.0"), module(modulePath, "v1.2.3")}}, "v1.2.3"},
		"a fork":             {&debug.BuildInfo{Main: *module("example.com/a", "v9.0.0"), Deps: []*debug.Module{replaced}}, "v1.2.4"},
		"a checkout":         {&debug.BuildInfo{Main: *module("example.com/a", "v9.0.0"), Deps: []*debug.Module{local}}, "dev"},
		"not a dependency":   {&debug.BuildInfo{Main: *module("example.com/a", "v9.0.0")}, "dev"},
	} {
		if got := moduleVersion(test.info); got != test.want {
			t.Errorf("moduleVersion(%s) = %q, want %q", name, got, test.want)
		}
	}
}
