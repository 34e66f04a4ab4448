package inmem

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	historytest.Run(t, historytest.Harness{Open: func(_ storetest.T, now func() time.Time) history.Provider {
		s := New()
		s.history.now = now
		return s.History()
	}})
}
