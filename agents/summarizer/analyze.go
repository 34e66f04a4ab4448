package summarizer

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/internal/runtime"
)

// A step analyzes pages until one of these limits is reached, and at least one page.
const (
	stepText = 64 << 10
	stepTime = 100 * time.Millisecond
)

// Progress is reported for about reportedPages pages of a document, and otherwise every
// reportInterval.
const (
	reportedPages  = 200
	reportInterval = 250 * time.Millisecond
)

// reading analyzes one document.
type reading struct {
	agent      *agent
	turn       *holdfast.Turn
	doc        *document
	analyses   []summarize.PageAnalysis
	label      string // prefix of progress reports
	resumed    bool   // a step of this attempt has run
	reportedAt time.Time
}

// analyze returns the analyses of docs[i].
func (a *agent) analyze(ctx context.Context, t *holdfast.Turn, docs []document, i int) ([]summarize.PageAnalysis, error) {
	r := &reading{agent: a, turn: t, doc: &docs[i]}
	if len(docs) > 1 {
		r.label = docs[i].name + ": "
	}
	for done := 0; done < len(r.doc.pages); done = len(r.analyses) {
		// The start of a step follows from the stored results of the steps before, so the names
		// are the same in every attempt, regardless of how many pages a step has.
		name := fmt.Sprintf("document %d%s from page %d", i+1, r.doc.stepSuffix(), r.doc.pages[done].Number)
		batch, err := r.step(ctx, name, r.doc.pages[done:])
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 || len(batch) > len(r.doc.pages)-done {
			return nil, fmt.Errorf("%s: the stored result has %d pages, more than the rest of the document", name, len(batch))
		}
		r.analyses = append(r.analyses, batch...)
	}
	return r.analyses, nil
}

// step analyzes a batch of pages as a durable step. If the result is too large to be stored,
// the batch is not durable and is analyzed again by a later attempt.
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
	if err := r.reportResume(pages[0]); err != nil {
		return nil, err
	}
	most := summarize.CandidatesPerPage(len(r.doc.pages))
	var made []summarize.PageAnalysis
	size, started := 0, time.Now()
	for _, p := range pages {
		size += len(p.Text)
		if len(made) > 0 && (size > stepText || time.Since(started) >= stepTime || r.agent.cfg.PageDelay > 0) {
			break
		}
		if err := r.reportPage(p); err != nil {
			return nil, err
		}
		if err := runtime.Sleep(ctx, r.agent.cfg.PageDelay); err != nil {
			return nil, err
		}
		err := r.agent.compute(ctx, r.doc.size, func() {
			analysis := summarize.Analyze(p)
			analysis.Limit(most)
			made = append(made, analysis)
		})
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}

// reportResume reports once at which page a later attempt resumes.
func (r *reading) reportResume(p summarize.Page) error {
	if r.resumed {
		return nil
	}
	r.resumed = true
	if len(r.analyses) == 0 {
		return nil
	}
	return r.turn.Status(fmt.Sprintf("%sresuming at page %d of %d", r.label, p.Number, r.doc.lastPage()))
}

// reportPage reports the page that is being read.
func (r *reading) reportPage(p summarize.Page) error {
	every := 1 + (len(r.doc.pages)-1)/reportedPages
	now := time.Now()
	if p.Number != r.doc.lastPage() && (p.Number-1)%every != 0 && now.Sub(r.reportedAt) < reportInterval {
		return nil
	}
	r.reportedAt = now
	return r.turn.Status(fmt.Sprintf("%sreading page %d of %d", r.label, p.Number, r.doc.lastPage()))
}
