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

func TestLoadRefusesNamesItCannotOrder(t *testing.T) {
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
		t.Error("Load() of a folder that is not there = nil, want an error")
	}
}
