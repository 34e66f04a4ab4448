package migrate

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestLoadOrdersByVersion(t *testing.T) {
	t.Parallel()
	all, err := Load(fstest.MapFS{
		"m/202602010000_second.sql": {Data: []byte("SELECT 2")},
		"m/202601010000_first.sql":  {Data: []byte("SELECT 1")},
	}, "m")
	if err != nil {
		t.Fatalf("Load() = %v", err)
	}
	if len(all) != 2 || all[0].String() != "202601010000_first" || all[1].SQL != "SELECT 2" || len(all[0].Checksum) != 64 {
		t.Errorf("Load() = %+v, want first, second", all)
	}
}

func TestLoadRejectsInvalidNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		names []string
		want  string
	}{
		{[]string{"1_first.sql"}, "name is not YYYYMMDDHHMM_name.sql"},
		{[]string{"202601010000_First.sql"}, "name is not YYYYMMDDHHMM_name.sql"},
		{[]string{"202601010000_a.sql", "202601010000_b.sql"}, "have the same version"},
	}
	for _, test := range tests {
		files := fstest.MapFS{}
		for _, name := range test.names {
			files["m/"+name] = &fstest.MapFile{}
		}
		if _, err := Load(files, "m"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Load(%v) = %v, want %q", test.names, err, test.want)
		}
	}
	if _, err := Load(fstest.MapFS{}, "m"); err == nil {
		t.Error("Load() of a folder that does not exist = nil, want an error")
	}
}

func TestLoadReadsTheOptionsOfAFile(t *testing.T) {
	t.Parallel()
	const first = "202601010000"
	files := func(text string) fstest.MapFS {
		return fstest.MapFS{"m/202601010000_a.sql": {Data: []byte("SELECT 1")}, "m/202602010000_b.sql": {Data: []byte(text)}}
	}
	for _, test := range []struct {
		text, compatible string
		without          bool
	}{
		{"SELECT 1", "202602010000", false},
		{"-- A comment.\n-- migrate: compatible with " + first + "\nSELECT 1", first, false},
		{"-- migrate: without transaction\n-- migrate: compatible with " + first + "  \nSELECT 1", first, true},
	} {
		all, err := Load(files(test.text), "m")
		if err != nil || all[1].Compatible != test.compatible || all[1].WithoutTransaction != test.without {
			t.Errorf("Load(%q) = %+v, %v, want compatible with %s, without transaction: %t", test.text, all, err, test.compatible, test.without)
		}
	}
	for text, want := range map[string]string{
		"-- migrate: compatible with 202603010000": `migration 202602010000_b: compatible with "202603010000", want the version of an earlier migration`,
		"-- migrate: compatible with 202602010000": "want the version of an earlier migration",
		"-- migrate: concurrently":                 `option "concurrently", want "without transaction" or`,
	} {
		if _, err := Load(files(text), "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q) = %v, want %q", text, err, want)
		}
	}
	alone := fstest.MapFS{"m/202601010000_a.sql": {Data: []byte("-- migrate: without transaction")}}
	if _, err := Load(alone, "m"); err == nil || !strings.Contains(err.Error(), "the first migration needs a transaction") {
		t.Errorf("Load() = %v, want the first migration rejected", err)
	}
}

func TestScriptsWithoutTransactionHaveNoBegin(t *testing.T) {
	t.Parallel()
	m := Migration{Version: "202602010000", Name: "b", Compatible: "202601010000", WithoutTransaction: true, SQL: "-- Why.\nSELECT 1;\nSELECT\n  2;\n"}
	script := Script(Params{Lock: "LOCK"}, m)
	for _, want := range []string{"SELECT 1;\nSELECT\n  2;\n\nINSERT INTO schema_migrations", "'202601010000');\n"} {
		if !strings.Contains(script, want) {
			t.Errorf("Script() = %s, want %q in it", script, want)
		}
	}
	for _, unwanted := range []string{"BEGIN", "COMMIT", "LOCK"} {
		if strings.Contains(script, unwanted) {
			t.Errorf("Script() = %s, want no %s", script, unwanted)
		}
	}
}
