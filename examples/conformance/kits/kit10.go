package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// reasons10 are the reasons of the requirements that are not met.
var reasons10 = map[string]string{}

// requirement is a requirement in the report of the kit for A2A 1.0.
type requirement struct {
	Level  string   `json:"level"`
	Status string   `json:"status"` // PASS, FAIL, SKIPPED or NOT TESTED
	Errors []string `json:"errors"`
}

// runKit10 runs the kit for A2A 1.0. A requirement is met if a profile shows it and no profile
// breaks it.
func runKit10(ctx context.Context, r *runner) (*report, error) {
	result := &report{command: "make conformance KIT=../a2a-tck # branch 1.0-dev"}
	met := make(map[string]requirement)
	err := withGRPCAgent(ctx, func(agent string) error {
		for _, pass := range []struct {
			profile string
			args    []string
		}{
			{profile: "v10"},
			{profile: "v10-off"},
			{"v10-ext", []string{"-k", "TestCapabilityExtensionRequired"}},
		} {
			requirements, err := r.kit10(ctx, agent, pass.profile, pass.args)
			if err != nil {
				return err
			}
			for id, now := range requirements {
				if before, ok := met[id]; !ok || now.Status == "FAIL" || now.Status == "PASS" && before.Status != "FAIL" {
					met[id] = now
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, level := range []string{"MUST", "SHOULD", "MAY"} {
		var tests []test
		for id, q := range met {
			if q.Level == level {
				tests = append(tests, test{id: id, outcome: outcomes10[q.Status], message: strings.Join(q.Errors, "; ")})
			}
		}
		slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.id, b.id) })
		result.add(level, "v10*", tests, reasons10)
	}
	return result, nil
}

var outcomes10 = map[string]outcome{"PASS": passed, "FAIL": failed, "SKIPPED": skipped, "NOT TESTED": skipped}

// kit10 runs tests of the kit against an agent of a profile over all transports.
func (r *runner) kit10(ctx context.Context, agent, profile string, args []string) (map[string]requirement, error) {
	var all struct {
		Requirements map[string]requirement `json:"per_requirement"`
	}
	err := inTempDir(func(dir string) error {
		file := filepath.Join(dir, "report.json")
		err := withProcess(ctx, agent, profile, func(url string) error {
			_, err := r.pytest(ctx, dir, append(args, "tests/compatibility", "--sut-host="+url+"/v1.0", "--webhook-host=127.0.0.1", "--compatibility-report="+file)...)
			return err
		})
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &all)
	})
	return all.Requirements, err
}
