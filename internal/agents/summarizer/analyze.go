package summarizer

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/summarize"
)

// A step takes pages until one of these is reached, and at least one.
const (
	stepText = 64 << 10
	stepTime = 100 * time.Millisecond
)

// Of a long document not every page is told, unless reading is slow.
const (
	toldPages = 200
	toldEvery = 250 * time.Millisecond
)

// reading is the analysis of one document.
type reading struct {
	agent *agent
	turn  *holdfast.Turn
	doc   *document
	label string // what progress begins with
	fresh bool   // a step of this attempt has run
	told  time.Time
}

// analyze fills in the analyses of docs[i].
func (a *agent) analyze(ctx context.Context, t *holdfast.Turn, docs []document, i int) error {
	r := &reading{agent: a, turn: t, doc: &docs[i]}
	if len(docs) > 1 {
		r.label = docs[i].name + ": "
	}
	for done := 0; done < len(r.doc.pages); done = len(r.doc.analyses) {
		// Where a step begins follows from the records of those before, so the names
		// are the same in every attempt, however many pages each step took.
		name := fmt.Sprintf("document %d%s from page %d", i+1, r.doc.mark(), r.doc.pages[done].Number)
		batch, err := r.step(ctx, name, r.doc.pages[done:])
		if err != nil {
			return err
		}
		if len(batch) == 0 || len(batch) > len(r.doc.pages)-done {
			return fmt.Errorf("%s: the record has %d pages, which the document has not", name, len(batch))
		}
		r.doc.analyses = append(r.doc.analyses, batch...)
	}
	return nil
}

// step analyses a batch of pages durably. A batch whose record is too large to be
// stored is only not durable: its analysis can be made again at any time.
func (r *reading) step(ctx context.Context, name string, pages []summarize.Page) ([]summarize.PageAnalysis, error) {
	var made []summarize.PageAnalysis
	batch, err := holdfast.Step(ctx, r.turn, name, func(ctx context.Context) ([]summarize.PageAnalysis, error) {
		var err error
		made, err = r.batch(ctx, pages)
		return made, err
	})
	if err != nil && made != nil && a2a.CodeOf(err) == a2a.CodeTooLarge {
		return made, nil
	}
	return batch, err
}

func (r *reading) batch(ctx context.Context, pages []summarize.Page) ([]summarize.PageAnalysis, error) {
	if err := r.resume(pages[0]); err != nil {
		return nil, err
	}
	var made []summarize.PageAnalysis
	size, begun := 0, time.Now()
	for _, p := range pages {
		size += len(p.Text)
		if len(made) > 0 && (size > stepText || time.Since(begun) >= stepTime || r.agent.cfg.PageDelay > 0) {
			break
		}
		if err := r.tell(p); err != nil {
			return nil, err
		}
		if err := sleep(ctx, r.agent.cfg.PageDelay); err != nil {
			return nil, err
		}
		made = append(made, summarize.Analyze(p))
	}
	return made, nil
}

// resume tells, once, where an interrupted attempt is taken up: behind the
// analyses that came from its records.
func (r *reading) resume(p summarize.Page) error {
	if r.fresh {
		return nil
	}
	r.fresh = true
	if len(r.doc.analyses) == 0 {
		return nil
	}
	return r.turn.Status(fmt.Sprintf("%sresuming at page %d of %d", r.label, p.Number, r.doc.last()))
}

// tell reports a page as being read.
func (r *reading) tell(p summarize.Page) error {
	every := 1 + (len(r.doc.pages)-1)/toldPages
	now := time.Now()
	if p.Number != r.doc.last() && (p.Number-1)%every != 0 && now.Sub(r.told) < toldEvery {
		return nil
	}
	r.told = now
	return r.turn.Status(fmt.Sprintf("%sreading page %d of %d", r.label, p.Number, r.doc.last()))
}

func sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
