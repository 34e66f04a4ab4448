package webhook

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
)

func TestUserAgent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, version, want string }{
		{"holdfast", "v1.2.3", "holdfast/v1.2.3"},
		{"holdfast", "v1.2.4-0.20261121063000-0123456789ab+dirty", "holdfast/v1.2.4-0.20261121063000-0123456789ab+dirty"},
		{"holdfast", "", "holdfast"},
		{"holdfast", "(devel)", "holdfast/-devel-"},
		{"My Agent/x", "1.0 é\r\nX: y", "My-Agent-x/1.0----X--y"},
	} {
		got := UserAgent(test.name, test.version)
		if got != test.want || !isUserAgent(got) {
			t.Errorf("UserAgent(%q, %q) = %q, want %q", test.name, test.version, got, test.want)
		}
	}
}

func TestConfigRejectsInvalidUserAgents(t *testing.T) {
	t.Parallel()
	cfg := Config{Store: inmem.New(), NewID: func() string { return "made" }}
	for agent, ok := range map[string]bool{
		"":                        true,
		"a/1 (https://a.example)": true,
		"a/1\r\nX-Other: 1":       false,
		"a\x00":                   false,
		"a\x7f":                   false,
		"é/1":                     false,
	} {
		cfg.UserAgent = agent
		if _, err := New(cfg); ok != (err == nil) || !ok && !strings.Contains(err.Error(), "UserAgent") {
			t.Errorf("New() with UserAgent %q = %v, want it accepted: %t", agent, err, ok)
		}
	}
}
