package sqlite

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

const (
	// checkBeforeUse is the maximum size of a file that Open checks completely, in bytes.
	checkBeforeUse = 16 << 20
	// checkTimeout limits a check in the background.
	checkTimeout = 2 * time.Minute
)

// startDamageCheck checks the database for damage. The check reads the whole file. A
// large file is therefore checked only after an unclean shutdown and in the background;
// Ping then reports damage.
func (s *Store) startDamageCheck(ctx context.Context, unclean bool) error {
	s.checked = make(chan struct{})
	background, cancel := context.WithTimeout(context.Background(), checkTimeout)
	s.stopCheck = cancel
	info, err := os.Stat(s.path)
	if err == nil && info.Size() <= checkBeforeUse {
		defer cancel()
		defer close(s.checked)
		return s.checkDamage(ctx)
	}
	if err != nil || !unclean {
		cancel()
		close(s.checked)
		return err
	}
	go func() {
		defer close(s.checked)
		defer cancel()
		err := s.checkDamage(background)
		if err == nil || background.Err() != nil {
			s.log.Info("database check ended", "path", s.path, "complete", err == nil)
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

// checkDamage reads the whole file on its own connection. It reports damage as an
// *a2a.Error.
func (s *Store) checkDamage(ctx context.Context) error {
	c, err := openConn(s.path, readWrite, "query_only(1)", "busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { _ = c.close() }()
	finding := ""
	err = c.queryContext(ctx, "PRAGMA quick_check(1)", func(r record) error {
		finding = r.text(0)
		return nil
	})
	if err == nil && finding != "ok" {
		err = a2a.Wrap(a2a.CodeInternal, errors.New(finding),
			"%s is damaged: restore it from a backup, or save what can be read with 'sqlite3 %s .recover'", s.path, s.path)
	}
	return err
}
