//go:build faults

package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// A turn appends to its transcript and remembers facts while its processes are killed. It finds each
// of them once.
func TestTranscriptAndFactsSurviveKills(t *testing.T) {
	parallel(t)
	for name, open := range map[string]func(t *testing.T) (*site, func() *process){
		"SQLite": func(t *testing.T) (*site, func() *process) {
			s := newSite(t)
			return s, s.start
		},
		"PostgreSQL": func(t *testing.T) (*site, func() *process) {
			c := newEmptyCluster(t, pgtest.URL(t), 1)
			c.args = []string{"-lease", "1s"}
			return c.site, func() *process {
				c.start(0, c.db)
				return c.replicas[0]
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s, start := open(t)
			p := start()
			id := p.send("keep 150 5ms")
			for range 2 {
				s.await("begin", id, "")
				time.Sleep(time.Duration(20+rand.IntN(300)) * time.Millisecond)
				p.kill()
				p = start()
			}
			task := p.awaitEnd(id)
			wantState(t, task, a2a.StateCompleted)
			if got, want := said(task), "150 messages, 150 facts"; got != want {
				t.Errorf("reply = %q, want %q", got, want)
			}
			attempts, kept := 0, 0
			for _, e := range s.done() {
				switch e.what {
				case "begin":
					attempts++
				case "kept":
					kept++
				}
			}
			t.Logf("%d calls in %d attempts", kept, attempts)
		})
	}
}

// A turn writes and removes documents while its processes are killed. The rows and the index have
// each pair of documents that was not removed.
func TestDocumentsSurviveKills(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := s.start()
	id := p.send("learn 150 5ms")
	for range 3 {
		s.await("begin", id, "")
		time.Sleep(time.Duration(20+rand.IntN(300)) * time.Millisecond)
		p.kill()
		p = s.start()
	}
	task := p.awaitEnd(id)
	wantState(t, task, a2a.StateCompleted)
	if got, want := said(task), "200 documents of 200, 200 in the index"; got != want {
		t.Errorf("reply = %q, want %q", got, want)
	}
}
