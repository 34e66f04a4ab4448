//go:build services

package redis

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var bg = context.Background()

// historyHarness returns the harness of transcripts on a server, each below a prefix of its own.
func historyHarness(url string) historytest.Harness {
	return historytest.Harness{
		Open: func(t storetest.T, now func() time.Time) history.Provider {
			return open(t, Config{URL: url, Now: now}).History()
		},
		Reopen: func(t storetest.T, p history.Provider, now func() time.Time) history.Provider {
			old := p.(*History).s
			if err := old.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return open(t, Config{URL: url, Prefix: old.cfg.Prefix, Now: now}).History()
		},
		ServerExpires: true,
	}
}

// stateHarness returns the harness of states on a server.
func stateHarness(url string) memorytest.ShortTermHarness {
	over := func(t storetest.T, s *Store, cfg memory.ShortTermConfig) memory.ShortTerm {
		states, err := s.ShortTerm(cfg)
		if err != nil {
			t.Fatalf("ShortTerm() = %v", err)
		}
		return states
	}
	again := func(t storetest.T, m memory.ShortTerm) memory.ShortTerm {
		old := m.(*ShortTerm)
		return over(t, open(t, Config{URL: url, Prefix: old.s.cfg.Prefix}), old.cfg)
	}
	return memorytest.ShortTermHarness{
		Open: func(t storetest.T, o memorytest.ShortTermOptions) memory.ShortTerm {
			return over(t, open(t, Config{URL: url}), memory.ShortTermConfig{Now: o.Now, TTL: o.TTL, MaxBytes: o.MaxBytes})
		},
		Second: again,
		Reopen: func(t storetest.T, m memory.ShortTerm) memory.ShortTerm {
			if err := m.(*ShortTerm).s.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return again(t, m)
		},
	}
}

func TestHistory(t *testing.T)   { historytest.Run(t, historyHarness(startServer(t).url())) }
func TestShortTerm(t *testing.T) { memorytest.RunShortTerm(t, stateHarness(startServer(t).url())) }

func TestHistoryOnCluster(t *testing.T) {
	historytest.Run(t, historyHarness(clusterURL(startCluster(t))))
}

func TestShortTermOnCluster(t *testing.T) {
	memorytest.RunShortTerm(t, stateHarness(clusterURL(startCluster(t))))
}
