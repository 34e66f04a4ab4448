package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestClaimReportsTasksItCannotRead(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"broken":  `UPDATE task_log SET events = '[{'`,
		"missing": `DELETE FROM task_log`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Dir: t.TempDir()})
			for n := range 3 {
				c := submitted(n)
				c.Run = &store.Run{Phase: store.PhaseQueued, Turn: 1}
				must(t, commitOne(s, c))
			}
			execFile(t, s.path, damage+` WHERE id >> 24 = (SELECT pk FROM task_rows WHERE id = '`+taskID(1)+`')`)
			if name == "missing" { // the event of the claim would be all that is left
				must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
					row, _, err := w.row(taskKey(1))
					row.checkpoint = 5
					w.keep(row, row.phase)
					return err
				}}))
			}
			tasks, err := s.Claim(bg, store.ClaimParams{
				Worker: "w", Now: began.Add(time.Hour), Until: began.Add(2 * time.Hour), Limit: 9,
				Event: store.Event{Time: began, State: a2a.StateWorking},
			})
			var partly *store.ClaimError
			if !errors.As(err, &partly) || partly.Lost != nil || len(partly.Unread) != 1 || len(tasks) != 2 {
				t.Fatalf("Claim() = %d tasks, %v, want two and one that cannot be read", len(tasks), err)
			}
			u := partly.Unread[0]
			if u.Key != taskKey(1) || u.Err == nil || u.Run.Phase != store.PhaseLeased || u.Run.Attempt != 1 || u.Run.Lease.Worker != "w" {
				t.Errorf("Claim() cannot read %+v, want task 1 leased to w", u)
			}
		})
	}
}
