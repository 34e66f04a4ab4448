package main

import (
	"context"
	"path/filepath"
	"strings"
)

// reasons03 are the reasons of the failures that remain.
var reasons03 = map[string]string{
	"test_push_notification_not_supported_error_32003_enhanced": "The test wants an error although the card declares webhooks; see the profile without webhooks.",
	"test_invalid_method_error_validation":                      "The test sends an object as `method` and wants -32601. JSON-RPC 2.0 requires a string; the response is -32600.",
	"test_agent_card_access_equivalence":                        "The test wants the extended card without credentials. Another test wants that rejected.",
	"test_tasks_resubscribe_nonexistent":                        "The test fails if the random id of its task or request contains 501.",
	"test_http_to_https_redirect":                               "The test sends plain HTTP to the port of HTTPS, which gets 400 instead of a redirect.",
}

// groups03 are the groups of tests of the kit for A2A 0.3, by directory.
var groups03 = []struct{ name, dir string }{
	{"mandatory directory", "tests/mandatory/"},
	{"capabilities", "tests/optional/capabilities/"},
	{"quality", "tests/optional/quality/"},
	{"features", "tests/optional/features/"},
	{"several transports", "tests/optional/multi_transport/"},
}

// delivery has the tests of webhooks, which only the commit 87b37f3 of the kit has.
const delivery = "tests/optional/capabilities/test_push_notification_delivery.py"

// runKit03 runs the kit for A2A 0.3.
func runKit03(ctx context.Context, r *runner) (*report, error) {
	result := &report{command: "make conformance KIT=../a2a-tck # tag 0.3.0.beta4"}
	type pass struct {
		profile, name string
		args          []string
	}
	passes := []pass{
		{"v03", "mandatory, as the kit marks them", []string{"tests/mandatory", "-m", "mandatory_jsonrpc or mandatory_protocol"}},
		{"v03", "", []string{"tests/mandatory", "tests/optional", "--deselect=" + delivery}},
		{"v03-auth", "authentication and security", []string{
			"tests/mandatory/authentication", "tests/mandatory/security", "tests/mandatory/protocol/test_extended_agent_card.py",
			"tests/optional/capabilities/test_authentication.py", "tests/optional/capabilities/test_a2a_v030_authentication.py",
		}},
		{"v03-noPush", "error codes, webhooks off", []string{"tests/mandatory/jsonrpc/test_a2a_error_codes_enhanced.py"}},
	}
	if exists(filepath.Join(r.path, delivery)) {
		result.command = "make conformance KIT=../a2a-tck # commit 87b37f3"
		passes = append(passes, pass{"v03", "delivery to webhooks", []string{delivery, "--webhook-host=127.0.0.1"}})
	}
	for _, pass := range passes {
		tests, err := r.kit03(ctx, pass.profile, pass.args)
		if err != nil {
			return nil, err
		}
		if pass.name != "" {
			result.add(pass.name, pass.profile, tests, reasons03)
			continue
		}
		for _, g := range groups03 {
			var group []test
			for _, t := range tests {
				if strings.HasPrefix(t.id, g.dir) {
					group = append(group, t)
				}
			}
			result.add(g.name, pass.profile, group, reasons03)
		}
	}
	return result, nil
}

// kit03 runs some tests of the kit against an agent of a profile.
func (r *runner) kit03(ctx context.Context, profile string, args []string) (tests []test, err error) {
	err = inTempDir(func(dir string) error {
		cert, err := newCertificate(filepath.Join(dir, certificateFile))
		if err != nil {
			return err
		}
		return withAgent(ctx, profile, cert, func(url string) error {
			tests, err = r.pytest(ctx, dir, append(args, "--sut-url="+url+"/", "--test-scope=all")...)
			return err
		})
	})
	return tests, err
}
