//go:build services

package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/sqlkit/kittest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestKitWritesWholeTransactions(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"direct": {}, "without prepared statements": {Pooler: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kittest.Run(t, &kit{database: open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), cfg)).database})
		})
	}
}
