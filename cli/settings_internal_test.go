package cli

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

func TestMaskURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                    "",
		"postgres://bob:s3cr3t@h:1/d":         "postgres://bob:***@h:1/d",
		"postgresql+asyncpg://bob:s3cr3t@h/d": "postgresql+asyncpg://bob:***@h/d",
		"postgres://bob:s3c@r3t@h/d":          "postgres://bob:***@h/d",
		"postgres://bob@h/d?sslmode=require":  "postgres://bob@h/d?sslmode=require",
		"postgres:///d?host=/run/postgresql":  "postgres:///d?host=/run/postgresql",
		"postgres://h/d?user=bob&password=s3cr3t&sslpassword=s3cr3t": "postgres://h/d?user=bob&password=***&sslpassword=***",
		"postgres://h/d?%70assword=s3cr3t":                           "postgres://h/d?%70assword=***",
		"bob:s3cr3t@h/d":                                             "***",
		"host=h password=s3cr3t":                                     "***",
		"postgres://bob:s3cr3t%zz@h/d":                               "***",
	} {
		if got := maskURL(in); got != want {
			t.Errorf("maskURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRedactPasswords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"unexpected argument postgres://bob:s3cr3t@h/d":       "unexpected argument postgres://bob:***@h/d",
		`"postgres://bob:s3c@r3t@h/d" and x@y`:                `"postgres://bob:***@h/d" and x@y`,
		"unexpected argument bob:s3cr3t@h:1/d":                "unexpected argument bob:***@h:1/d",
		"unexpected argument host=h password=s3cr3t user=bob": "unexpected argument host=h password=*** user=bob",
		"got postgres://h/d?password=s3cr3t&user=bob":         "got postgres://h/d?password=***&user=bob",
		"set it to " + urlFormat:                              "set it to " + urlFormat,
		"http://127.0.0.1:80/ is not for bob@example":         "http://127.0.0.1:80/ is not for bob@example",
	} {
		if got := redactPasswords(in); got != want {
			t.Errorf("withoutPasswords(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestDurationsNeedAUnit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{"30s": 30 * time.Second, "0.25s": 250 * time.Millisecond, "0": 0, "500ms": 500 * time.Millisecond, "2m": 2 * time.Minute} {
		for _, name := range []string{"HOLDFAST_TASK_TIMEOUT", "PUSH_TIMEOUT", "STORAGE__POSTGRES_TIMEOUT"} {
			if got, err := durationFrom(t, name, in); err != nil || got != want {
				t.Errorf("%s=%s is %v, %v, want %s", name, in, got, err, want)
			}
		}
	}
	for _, in := range []string{"5", "1.5", "soon", "NaN", "30 s"} {
		for _, name := range []string{"HOLDFAST_TASK_TIMEOUT", "PUSH_TIMEOUT", "HOLDFAST_POSTGRES_TIMEOUT"} {
			if got, err := durationFrom(t, name, in); err == nil || !strings.Contains(err.Error(), "want a number with a unit, such as 500ms, 30s or 2m") {
				t.Errorf("%s=%s is %v, %v, want an error that asks for a unit", name, in, got, err)
			}
		}
	}
	// The STORAGE__ variables are in seconds.
	if got, err := durationFrom(t, "STORAGE__POSTGRES_TIMEOUT", "2.5"); err != nil || got != 2500*time.Millisecond {
		t.Errorf("STORAGE__POSTGRES_TIMEOUT=2.5 is %v, %v, want 2.5s", got, err)
	}
}

// durationFrom reads a setting of serve from a variable.
func durationFrom(t *testing.T, name, value string) (time.Duration, error) {
	t.Helper()
	a := newApp(Program{Environ: []string{name + "=" + value}})
	var g grammar
	parser, err := a.parser(&g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]time.Duration{
		"HOLDFAST_TASK_TIMEOUT": g.Serve.TaskTimeout, "PUSH_TIMEOUT": g.Serve.WebhookTimeout,
		"STORAGE__POSTGRES_TIMEOUT": g.Serve.Timeout, "HOLDFAST_POSTGRES_TIMEOUT": g.Serve.Timeout,
	}
	return got[name], a.set.validationError()
}

func TestUnknownSettingNamesTheNearest(t *testing.T) {
	t.Parallel()
	a := newApp(Program{})
	var g grammar
	if _, err := a.parser(&g); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"storge": "did you mean storage?", "database_url": "its name in the file is database-url", "postgres-pool-mx": "did you mean postgres-pool-max?",
		"STORAGE__POSTGRES_POOL_MAX": "its name in the file is postgres-pool-max", "postgres_timeout": "did you mean postgres-timeout?", "zzzzzz": `setting "zzzzzz"`,
	} {
		if got := unknownSetting(in, a.set.serveFlags); !strings.HasSuffix(got, want) {
			t.Errorf("unknownSetting(%q) = %q, want it to end with %q", in, got, want)
		}
	}
}

// A larger config file must not be applied in part.
func TestLargeConfigFileIsRejected(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "config.yaml")
	writeFile(t, name, strings.Repeat("# a comment\n", maxConfig/12+1)+"lease: 1s\n")
	if values, err := readConfig(name, nil); err == nil || !strings.Contains(err.Error(), "is larger than the maximum of 1048576 bytes") {
		t.Errorf("readConfig() = %v, %v, want an error about the size", values, err)
	}
}

// The flags support the storage variables of other agent servers, with their defaults.
func TestSettingsOfPostgres(t *testing.T) {
	t.Parallel()
	a := newApp(Program{})
	var g grammar
	if _, err := a.parser(&g); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{
		"STORAGE_TYPE": "", "DATABASE_URL": "", "postgres_url": "", "POSTGRES_DID": "", "DID": "", "STORAGE__POSTGRES_POOL_MIN": "2",
		"STORAGE__POSTGRES_POOL_MAX": "10", "STORAGE__POSTGRES_TIMEOUT": "60s", "STORAGE__POSTGRES_COMMAND_TIMEOUT": "30s",
		"STORAGE__POSTGRES_MAX_RETRIES": "3", "STORAGE__POSTGRES_RETRY_DELAY": "1s", "STORAGE__RUN_MIGRATIONS_ON_STARTUP": "",
	}
	for _, flag := range a.set.serveFlags {
		for _, name := range envNames(flag.Value) {
			if want, ok := defaults[name]; ok && flag.Default == want {
				delete(defaults, name)
			}
		}
	}
	if len(defaults) > 0 {
		t.Errorf("no flag has these variables with these defaults: %v", defaults)
	}
}

// The tables of docs/configuration.md, one for each group of flags, are generated by -update.
func TestDocsListEverySetting(t *testing.T) {
	t.Parallel()
	const page = "../docs/configuration.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(Program{})
	var g grammar
	if _, err := a.parser(&g); err != nil {
		t.Fatal(err)
	}
	tables := map[string]string{}
	for _, f := range a.set.serveFlags {
		group := "General"
		if f.Group != nil {
			group = strings.TrimSuffix(f.Group.Title, ":")
		}
		if tables[group] == "" {
			tables[group] = "| Setting | Variables | Default | Bounds | Meaning |\n|---|---|---|---|---|\n"
		}
		if !f.Hidden {
			tables[group] += settingRow(f)
		}
	}
	block := regexp.MustCompile(`(?s)(<!-- settings: ([A-Za-z ]+) -->\n).*?(<!-- end -->)`)
	want := block.ReplaceAllStringFunc(string(raw), func(old string) string {
		m := block.FindStringSubmatch(old)
		table := tables[m[2]]
		delete(tables, m[2])
		return m[1] + table + m[3]
	})
	if len(tables) > 0 {
		t.Errorf("%s has no place for the settings of %q", page, slices.Sorted(maps.Keys(tables)))
	}
	if flag.Lookup("update").Value.String() == "true" {
		writeFile(t, page, want)
	} else if want != string(raw) {
		t.Errorf("the settings in %s are not the settings of serve: go test ./cli -run TestDocsListEverySetting -update", page)
	}
}

var helpDefault = regexp.MustCompile(` \(default ([^()]*)\)`)

// settingRow returns the row of a setting in a table.
func settingRow(flag *kong.Flag) string {
	value := ""
	if m := helpDefault.FindStringSubmatch(flag.Help); m != nil {
		value = m[1]
	}
	if flag.HasDefault {
		value = "`" + flag.Default + "`"
	}
	return fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |\n", flag.Name, strings.Join(envNames(flag.Value), "`, `"), value,
		describe(flag).Rule(), helpDefault.ReplaceAllString(flag.Help, ""))
}
