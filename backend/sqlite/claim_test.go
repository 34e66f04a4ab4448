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
				c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1}
				must(t, commitOne(s, c))
			}
			execFile(t, s.path, damage+` WHERE id >> 24 = (SELECT pk FROM task_rows WHERE id = '`+taskID(1)+`')`)
			if name == "missing" { // otherwise the log has the event of the claim
				must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
					row, _, err := w.row(taskKey(1))
					row.Checkpoint = 5
					w.stageRow(row, row.Phase)
					return err
				}}))
			}
			tasks, err := s.Claim(bg, store.ClaimParams{
				Worker: "w", Now: testTime.Add(time.Hour), Until: testTime.Add(2 * time.Hour), Limit: 9,
				Event: store.Event{Time: testTime, State: a2a.StateWorking},
			})
			var claimErr *store.ClaimError
			if !errors.As(err, &claimErr) || claimErr.Indeterminate != nil || len(claimErr.Unreadable) != 1 || len(tasks) != 2 {
				t.Fatalf("Claim() = %d tasks, %v, want 2 tasks and 1 unreadable", len(tasks), err)
			}
			u := claimErr.Unreadable[0]
			if u.Key != taskKey(1) || u.Err == nil || u.Queue.Phase != store.PhaseLeased || u.Queue.Attempt != 1 || u.Queue.Lease.Worker != "w" {
				t.Errorf("Claim() unreadable = %+v, want task 1 leased to w", u)
			}
		})
	}
}
