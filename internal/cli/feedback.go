package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// tasksFeedbackCmd gives feedback on a task, or lists what was given.
type tasksFeedbackCmd struct {
	ID       string   `arg:"" optional:"" help:"The task's id. With --list it may be left out: feedback on all your tasks."`
	Text     []string `arg:"" optional:"" help:"What you think; - reads it from stdin."`
	Rating   *int     `short:"r" placeholder:"N" group:"Give:" help:"How good it was: 1 to 5, 5 is best."`
	Metadata []string `sep:"none" placeholder:"KEY=TEXT|JSON" group:"Give:" help:"Data of yours: key=text, or a JSON object; again for more."`

	List      bool   `short:"l" group:"List:" help:"Show the feedback that was given, newest first, and what it comes to."`
	Limit     int    `short:"n" placeholder:"N" default:"20" group:"List:" help:"How much of it a page has, at most 100. Default: ${default}."`
	PageToken string `placeholder:"TOKEN" group:"List:" help:"Go on where another page ended."`
	All       bool   `group:"List:" help:"All pages. With --json: one a line, without the summary."`

	connection
}

// Help has examples.
func (tasksFeedbackCmd) Help() string {
	return `Examples:

    holdfast tasks feedback 01980a2e-... --rating 5
    holdfast tasks feedback 01980a2e-... --rating 2 "It left the second chapter out."
    holdfast tasks feedback 01980a2e-... --list
    holdfast tasks feedback --list --json | jq .summary`
}

// Run gives or lists feedback.
func (c *tasksFeedbackCmd) Run(ctx context.Context, a *app) error {
	gives := c.Rating != nil || len(c.Text) > 0 || len(c.Metadata) > 0
	see := "see: " + a.name + " help tasks feedback"
	switch {
	case c.List && gives:
		return &hinted{usagef("--list must not be given together with feedback"), see}
	case !c.List && c.ID == "":
		return &hinted{usagef("give a task's id, or --list"), see}
	case !c.List && c.Rating == nil && len(c.Text) == 0:
		return &hinted{usagef("there is no feedback: give --rating N, a text or both; --list shows what was given"), see}
	}
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	if c.List {
		return c.explain(ctx, a, c.list(ctx, a, cl))
	}
	return c.explain(ctx, a, c.give(ctx, a, cl))
}

func (c *tasksFeedbackCmd) give(ctx context.Context, a *app, cl *client.Client) error {
	params := a2a.TaskFeedbackParams{TaskID: c.ID, Feedback: strings.Join(c.Text, " "), Rating: c.Rating}
	if params.Feedback == "-" {
		text, err := readLimited(a.stdin, "stdin")
		if err != nil {
			return err
		}
		params.Feedback = strings.TrimSpace(strings.ToValidUTF8(string(text), "\ufffd"))
	}
	if c.Metadata != nil {
		var err error
		if params.Metadata, err = parseMetadata(c.Metadata); err != nil {
			return err
		}
	}
	raw, _, err := ask[map[string]string](ctx, cl, a2a.MethodFeedback, params)
	if err != nil {
		return err
	}
	a.changed(raw, "saved feedback on "+c.ID)
	return nil
}

func (c *tasksFeedbackCmd) list(ctx context.Context, a *app, cl *client.Client) error {
	params := a2a.ListTaskFeedbackParams{TaskID: c.ID, PageSize: &c.Limit, PageToken: c.PageToken}
	rows := 0
	var summary a2a.FeedbackSummary
	for {
		raw, page, err := ask[a2a.ListTaskFeedbackResult](ctx, cl, a2a.MethodFeedbackList, params)
		if err != nil {
			return err
		}
		switch {
		case a.json && !c.All:
			a.out.raw(append(raw, '\n'))
		case a.json:
			if err := writeItems(a, raw, "feedback"); err != nil {
				return err
			}
		default:
			rows += writeFeedback(a.out, page.Feedback, rows == 0)
		}
		summary, params.PageToken = page.Summary, page.NextPageToken
		if !c.All || page.NextPageToken == "" {
			break
		}
	}
	if a.json {
		return nil
	}
	if rows == 0 {
		a.say("no feedback")
	}
	if params.PageToken != "" {
		a.say("there is more: --all shows it, --page-token %s the next page", params.PageToken)
	}
	showSummary(a.out, &summary, rows > 0)
	return nil
}

// writeFeedback writes a line for each.
func writeFeedback(o *output, feedback []a2a.TaskFeedback, head bool) int {
	row := func(task, rating, given, text string) {
		width := 60
		if o.terminal {
			width = max(o.width-36-6-4-2*3, 12)
		}
		o.line("%s", strings.TrimRight(fmt.Sprintf("%-36s  %6s  %4s  %s", task, rating, given, oneLine(text, width)), " "))
	}
	for i, f := range feedback {
		if i == 0 && head {
			row("TASK", "RATING", "AGE", "TEXT")
		}
		rating := "-"
		if f.Rating != nil {
			rating = strconv.Itoa(*f.Rating)
		}
		row(oneLine(f.TaskID, 0), rating, age(f.CreatedAt), f.Feedback)
	}
	return len(feedback)
}

// showSummary shows what all the feedback of the caller comes to.
func showSummary(o *output, s *a2a.FeedbackSummary, apart bool) {
	if s.Count == 0 {
		return
	}
	if apart {
		o.line("")
	}
	line := fmt.Sprintf("all feedback: %d", s.Count)
	if s.Rated != s.Count {
		line += fmt.Sprintf(", %d rated", s.Rated)
	}
	if s.Average != nil {
		line += fmt.Sprintf(", average %.1f", *s.Average)
	}
	o.line("%s", line)
	if s.Rated == 0 {
		return
	}
	most := 1
	for _, n := range s.Ratings {
		most = max(most, n)
	}
	const widest = 30
	for rating := 5; rating >= 1; rating-- {
		n := s.Ratings[strconv.Itoa(rating)]
		bar := strings.Repeat("#", (n*widest+most-1)/most)
		o.line("%s", strings.TrimRight(fmt.Sprintf("  %d  %5d  %s", rating, n, bar), " "))
	}
}
