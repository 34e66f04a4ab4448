package historysql

import (
	"cmp"
	"errors"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// AppendEffect implements history.Transactional.
func (h *History) AppendEffect(k history.Key, p history.AppendParams) (store.Effect, error) {
	if err := historydriver.CheckAppend(k, &p); err != nil {
		return nil, err
	}
	p = historydriver.CopyAppend(p)
	rows := messageRows(&p)
	return h.effect(k, func(tx sqlkit.Tx, now int64) error {
		if p.IdempotencyKey != "" {
			if repeated, err := h.repeatedAppend(tx, k, &p, now); repeated || err != nil {
				return err
			}
		}
		_, err := h.appendMessages(tx, k, &p, rows, now)
		return err
	}, func() (string, []sqlkit.Call) {
		a := newPipelinedAppend(&p, rows, h.now().UnixMilli())
		if a.order(k) == "" {
			return "", nil
		}
		return a.order(k), a.calls(k, &p, nil)
	}), nil
}

// ClearEffect implements history.Transactional.
func (h *History) ClearEffect(k history.Key) (store.Effect, error) {
	if err := historydriver.CheckKey(k); err != nil {
		return nil, err
	}
	return sqlkit.NewEffect(h.db, func(tx sqlkit.Tx) error {
		_, err := tx.Exec(sqlHistoryMark, args(k)...)
		return err
	}), nil
}

// ClearRunEffect implements history.Transactional.
func (h *History) ClearRunEffect(k history.Key, run string, fence int64) (store.Effect, error) {
	if err := historydriver.CheckRun(k, run, fence); err != nil {
		return nil, err
	}
	return h.effect(k, func(tx sqlkit.Tx, now int64) error {
		_, err := h.clearRun(tx, k, run, fence, now)
		return err
	}, nil), nil
}

// effect returns an effect that calls f. If f returns errExpired, it purges the session in the same
// transaction and calls f again.
func (h *History) effect(k history.Key, f func(tx sqlkit.Tx, now int64) error, calls func() (order string, calls []sqlkit.Call)) store.Effect {
	return sqlkit.NewPipelinedEffect(h.db, func(tx sqlkit.Tx) error {
		for {
			now := h.now().UnixMilli()
			err := f(tx, now)
			if !errors.Is(err, errExpired) {
				return err
			}
			for more := true; more; {
				if more, err = purgeBatch(tx, k, now); err != nil {
					return err
				}
			}
		}
	}, calls)
}

// repeatedAppend reports whether an earlier append had the idempotency key. It locks the session,
// and creates it if necessary, so that no other transaction can append with the key before the
// caller does. The caller could not undo a repeated append without the rest of its transaction.
func (h *History) repeatedAppend(tx sqlkit.Tx, k history.Key, p *history.AppendParams, now int64) (bool, error) {
	if err := createSession(tx, k, 0, now); err != nil && !errors.Is(err, history.ErrExists) {
		return false, err
	}
	if _, found, err := lockSession(tx, k, now); err != nil || !found {
		return false, cmp.Or(err, errExpired)
	}
	err := h.checkAppend(tx, k, p)
	var repeated repeatedError
	if errors.As(err, &repeated) {
		return true, nil
	}
	return false, err
}
