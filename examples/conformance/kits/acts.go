package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reasonsACTS are the reasons of the tests that do not pass.
var reasonsACTS = map[string]string{
	"CARD-DISC-002":    "The test wants `REST` as the name of a binding. In A2A 1.0 it is `HTTP+JSON`.",
	"CORE-ERR-007":     "The test wants an object as error data. A2A 1.0, and CORE-ERR-008, want an array.",
	"CORE-ERR-008":     "The request names its task in a member that A2A 1.0 does not define, and so starts another task.",
	"CORE-CAP-001":     "The test wants UnsupportedOperationError. A2A 1.0 wants PushNotificationNotSupportedError.",
	"PUSH-CFG-004":     "As CORE-CAP-001.",
	"DM-FMT-003":       "The test wants no contextId in a message. The message has one, which is no default value.",
	"DM-ART-003":       "The test wants the member `file` in a part. A2A 1.0 has `raw`, `filename` and `mediaType`.",
	"DM-ART-004":       "The test wants the member `fileUrl` in a part. A2A 1.0 has `url`, `filename` and `mediaType`.",
	"REST-PD-001":      "The test wants problem details (RFC 9457). A2A 1.0 has the form of AIP-193.",
	"SEC-AUTH-006":     "The test accepts the public card, but wants the members of an error in it.",
	"CLIENT-PARSE-003": "The messages of the response lack messageId, which A2A 1.0 requires.",
	"CLIENT-PARSE-006": "The parts of the response have members that A2A 1.0 does not define (`file`, `fileUrl`).",
	"CLIENT-AUTH-001":  "The card lacks members that A2A 1.0 requires, such as description.",
	"CLIENT-CAP-001":   "As CLIENT-AUTH-001.",
}

// actsTest is a test of an ACTS suite.
type actsTest struct {
	ID            string   `yaml:"id"`
	Level         string   `yaml:"level"`
	Transport     []string `yaml:"transport"`
	Preconditions struct {
		Capabilities map[string]bool `yaml:"capabilities"`
	} `yaml:"preconditions"`
	Steps []actsStep `yaml:"steps"`

	variables map[string]any // of the file
}

// actsStep is a step of a test: an operation, a raw request, or a response to decode.
type actsStep struct {
	ID        string         `yaml:"id"`
	Operation string         `yaml:"operation"`
	Params    map[string]any `yaml:"params"`
	Raw       *struct {
		Method  string            `yaml:"method"`
		Path    string            `yaml:"path"`
		Headers map[string]string `yaml:"headers"`
		Body    any               `yaml:"body"`
		BodyRaw string            `yaml:"body_raw"`
	} `yaml:"raw"`
	ClientResponse *struct {
		Operation   string         `yaml:"operation"`
		WirePayload map[string]any `yaml:"wire_payload"`
	} `yaml:"client_response"`
	Capture      map[string]string `yaml:"capture"`
	Expect       map[string]any    `yaml:"expect"`
	ExpectError  map[string]any    `yaml:"expect_error"`
	ExpectStream map[string]any    `yaml:"expect_stream"`
	ExpectParsed map[string]any    `yaml:"expect_parsed"`
	Repeat       *struct {
		Until    string `yaml:"until"`
		Attempts int    `yaml:"max_attempts"`
		DelayMS  int    `yaml:"delay_ms"`
	} `yaml:"repeat"`
	Assertions []struct {
		Source string `yaml:"source"`
		Any    struct {
			Path  string `yaml:"path"`
			Match any    `yaml:"match"`
		} `yaml:"any"`
	} `yaml:"assertions"`
}

// readACTS returns the tests of the files that a suite includes.
func readACTS(dir string) ([]actsTest, error) {
	var suite struct {
		Include []string `yaml:"include"`
	}
	if err := readYAML(filepath.Join(dir, "suite.acts.yaml"), &suite); err != nil {
		return nil, err
	}
	var tests []actsTest
	for _, name := range suite.Include {
		var file struct {
			Variables map[string]any `yaml:"variables"`
			Suites    []struct {
				Tests []actsTest `yaml:"tests"`
			} `yaml:"suites"`
		}
		if err := readYAML(filepath.Join(dir, name), &file); err != nil {
			return nil, err
		}
		for _, s := range file.Suites {
			for _, t := range s.Tests {
				t.variables = file.Variables
				tests = append(tests, t)
			}
		}
	}
	return tests, nil
}

func readYAML(name string, v any) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// actsProfiles are the profiles in which the tests run. A test runs in the first one with the
// capabilities that it requires.
var actsProfiles = []struct {
	name         string
	capabilities map[string]bool
}{
	{"acts", map[string]bool{"streaming": true, "pushNotifications": true, "extendedAgentCard": true, "authentication": false}},
	{"acts-auth", map[string]bool{"streaming": true, "pushNotifications": true, "extendedAgentCard": true, "authentication": true}},
	{"acts-reduced", map[string]bool{"streaming": false, "pushNotifications": false, "extendedAgentCard": false, "authentication": false}},
}

// actsBindings are the bindings by their names in ACTS.
var actsBindings = []struct{ name, label string }{{"jsonrpc", "JSON-RPC"}, {"rest", "HTTP+JSON"}}

// runACTS runs the suites over each binding.
func runACTS(ctx context.Context, r *runner) (*report, error) {
	tests, err := readACTS(filepath.Join(r.path, "tests", "acts"))
	if err != nil {
		return nil, err
	}
	result := &report{command: "make conformance KIT=../A2A # branch conformance-spec"}
	for _, b := range actsBindings {
		outcomes := make(map[string][]test)
		for i, p := range actsProfiles {
			err := withAgent(ctx, p.name, nil, func(url string) error {
				url = strings.Replace(url, kitHost, "127.0.0.1", 1)
				for _, t := range tests {
					if j := profileOf(t); j != i || len(t.Transport) > 0 && !slices.Contains(t.Transport, b.name) {
						continue
					}
					run := newActsRun(ctx, url, b.name == "rest", t)
					done := test{id: t.ID, outcome: passed}
					if problem := run.steps(t.Steps); problem != "" {
						done.outcome, done.message = failed, problem
					}
					if r.verbose {
						fmt.Fprintln(r.out, b.name, p.name, t.ID, t.Level, done.outcome, done.message)
					}
					outcomes[t.Level] = append(outcomes[t.Level], done)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		for _, level := range []string{"must", "should", "may"} {
			result.add(b.label+", "+strings.ToUpper(level), "acts*", outcomes[level], reasonsACTS)
		}
	}
	return result, nil
}

// profileOf returns the index of the profile in which a test runs.
func profileOf(t actsTest) int {
	return slices.IndexFunc(actsProfiles, func(p struct {
		name         string
		capabilities map[string]bool
	},
	) bool {
		for name, want := range t.Preconditions.Capabilities {
			if p.capabilities[name] != want {
				return false
			}
		}
		return true
	})
}
