package sqlite

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

const (
	// checkAtOnce is the size up to which a file is checked before it is used.
	checkAtOnce = 16 << 20
	// checkLimit ends a check in the background.
	checkLimit = 2 * time.Minute
)

// startCheck looks for damage. The check reads the whole file, so a large one
// is checked only after an unclean end, beside the work; Ping then tells what
// was found.
func (s *Store) startCheck(ctx context.Context, unclean bool) error {
	s.checked = make(chan struct{})
	background, cancel := context.WithTimeout(context.Background(), checkLimit)
	s.stopCheck = cancel
	info, err := os.Stat(s.path)
	if err == nil && info.Size() <= checkAtOnce {
		defer cancel()
		defer close(s.checked)
		return s.check(ctx)
	}
	if err != nil || !unclean {
		cancel()
		close(s.checked)
		return err
	}
	go func() {
		defer close(s.checked)
		defer cancel()
		err := s.check(background)
		if err == nil || background.Err() != nil {
			s.log.Info("database was checked", "path", s.path, "complete", err == nil)
			return
		}
		var damage *a2a.Error
		if errors.As(openError(err, s.path), &damage) {
			s.damage.Store(damage)
		}
		s.log.Error("database is damaged", "path", s.path, "error", err)
	}()
	return nil
}

// check reads the whole file once, on a connection of its own. Damage is an
// *a2a.Error.
func (s *Store) check(ctx context.Context) error {
	c, err := openConn(s.path, readWrite, "query_only(1)", "busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { _ = c.close() }()
	check, err := c.prepare("PRAGMA quick_check(1)")
	if err != nil {
		return err
	}
	finding := ""
	err = check.query(ctx, func(r record) error {
		finding = r.text(0)
		return nil
	})
	if err == nil && finding != "ok" {
		err = a2a.Wrap(a2a.CodeInternal, errors.New(finding),
			"%s is damaged: restore it from a backup, or save what can be read with 'sqlite3 %s .recover'", s.path, s.path)
	}
	return err
}
