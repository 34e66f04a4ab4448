package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Migration is one step of a schema.
type Migration struct {
	// Version is the stamp YYYYMMDDHHMM of the file's name.
	Version string
	// Name is the rest of the file's name, without ".sql".
	Name string
	SQL  string
	// Checksum is the SHA-256 of SQL, in hex.
	Checksum string
	// WithoutTransaction runs each statement of SQL outside a transaction. The line
	// "-- migrate: without transaction" in the file sets it.
	WithoutTransaction bool
	// Compatible is the oldest version with programs that work with the schema after this
	// migration. The line "-- migrate: compatible with YYYYMMDDHHMM" in the file sets it;
	// the default is Version.
	Compatible string
}

func (m Migration) String() string { return m.Version + "_" + m.Name }

// ErrNewer reports that a newer program has migrated the database.
var ErrNewer = errors.New("schema is newer than this program")

// ErrChanged reports that an applied migration differs from this program's migration.
var ErrChanged = errors.New("applied migration was changed")

var (
	fileName = regexp.MustCompile(`^(\d{12})_([a-z0-9_]+)\.sql$`)
	option   = regexp.MustCompile(`(?m)^-- migrate: *(.*?)\s*$`)
)

// Load reads the migrations in a directory and returns them in order of version. It rejects
// files with another name, duplicate versions and unknown options.
func Load(fsys fs.FS, dir string) ([]Migration, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var all []Migration
	for _, e := range entries {
		parts := fileName.FindStringSubmatch(e.Name())
		if parts == nil {
			return nil, fmt.Errorf("migration %q: name is not YYYYMMDDHHMM_name.sql", e.Name())
		}
		text, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(text)
		m := Migration{Version: parts[1], Name: parts[2], SQL: string(text), Checksum: hex.EncodeToString(sum[:]), Compatible: parts[1]}
		if n := len(all); n > 0 && all[n-1].Version == m.Version {
			return nil, fmt.Errorf("migrations %s and %s have the same version", all[n-1], m)
		}
		if err := m.readOptions(all); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// readOptions reads the lines of the file that start with "-- migrate:".
func (m *Migration) readOptions(before []Migration) error {
	for _, found := range option.FindAllStringSubmatch(m.SQL, -1) {
		switch version, ok := strings.CutPrefix(found[1], "compatible with "); {
		case ok && slices.ContainsFunc(before, func(b Migration) bool { return b.Version == version }):
			m.Compatible = version
		case ok:
			return fmt.Errorf("compatible with %q, want the version of an earlier migration", version)
		case found[1] == "without transaction" && len(before) > 0:
			m.WithoutTransaction = true
		case found[1] == "without transaction":
			return errors.New("the first migration needs a transaction")
		default:
			return fmt.Errorf("option %q, want \"without transaction\" or \"compatible with YYYYMMDDHHMM\"", found[1])
		}
	}
	return nil
}

var comment = regexp.MustCompile(`(?m)^--.*$`)

// statements splits SQL into statements. A statement ends with a semicolon at the end of a
// line.
func (m Migration) statements() []string {
	var all []string
	for text := range strings.SplitSeq(comment.ReplaceAllString(m.SQL, "")+"\n", ";\n") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}
