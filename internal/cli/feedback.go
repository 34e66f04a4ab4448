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
	ID       string   `arg:"" optional:"" help:"Task id. Optional with --list; without it, feedback on all your tasks."`
	Text     []string `arg:"" optional:"" help:"Feedback text; - reads it from stdin."`
	Rating   *int     `short:"r" placeholder:"N" group:"Give:" help:"Rating from 1 to 5; 5 is best."`
	Metadata []string `sep:"none" placeholder:"KEY=TEXT|JSON" group:"Give:" help:"Your metadata: key=text or a JSON object. Repeatable."`

	List      bool   `short:"l" group:"List:" help:"List feedback, newest first, and a summary."`
	Limit     int    `short:"n" placeholder:"N" default:"20" group:"List:" help:"Records per page, at most 100 (default ${default})."`
	PageToken string `placeholder:"TOKEN" group:"List:" help:"Continue from a previous page."`
	All       bool   `group:"List:" help:"Show all pages. With --json: one record per line, without the summary."`

	connection
}

// Help implements [kong.HelpProvider].
func (tasksFeedbackCmd) Help() string {
	return `Examples:

    holdfast tasks feedback 01980a2e-... --rating 5
    holdfast tasks feedback 01980a2e-... --rating 2 "It left the second chapter out."
    holdfast tasks feedback 01980a2e-... --list
    holdfast tasks feedback --list --json | jq .summary`
}

// Run gives or lists feedback.
func (c *tasksFeedbackCmd) Run(ctx context.Context, a *app) error {
	hasFeedback := c.Rating != nil || len(c.Text) > 0 || len(c.Metadata) > 0
	hint := "see: " + a.name + " help tasks feedback"
	switch {
	case c.List && hasFeedback:
		return &hintError{usagef("--list and feedback must not both be given"), hint}
	case !c.List && c.ID == "":
		return &hintError{usagef("a task id or --list is required"), hint}
	case !c.List && c.Rating == nil && len(c.Text) == 0:
		return &hintError{usagef("no feedback given: set --rating N, a text or both; --list lists feedback"), hint}
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
	raw, _, err := callMethod[map[string]string](ctx, cl, a2a.MethodFeedback, params)
	if err != nil {
		return err
	}
	a.printChange(raw, "saved feedback on "+c.ID)
	return nil
}

func (c *tasksFeedbackCmd) list(ctx context.Context, a *app, cl *client.Client) error {
	params := a2a.ListTaskFeedbackParams{TaskID: c.ID, PageSize: &c.Limit, PageToken: c.PageToken}
	rows := 0
	var summary a2a.FeedbackSummary
	for {
		raw, page, err := callMethod[a2a.ListTaskFeedbackResult](ctx, cl, a2a.MethodFeedbackList, params)
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
		a.info("no feedback")
	}
	if params.PageToken != "" {
		printMore(a, "", params.PageToken)
	}
	showSummary(a.out, &summary, rows > 0)
	return nil
}

// writeFeedback prints one line per record, after a header if head is set, and returns the number of
// records.
func writeFeedback(o *output, feedback []a2a.TaskFeedback, header bool) int {
	row := func(task, rating, given, text string) {
		width := 60
		if o.terminal {
			width = max(o.width-36-6-4-2*3, 12)
		}
		o.line("%s", strings.TrimRight(fmt.Sprintf("%-36s  %6s  %4s  %s", task, rating, given, oneLine(text, width)), " "))
	}
	for i, f := range feedback {
		if i == 0 && header {
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

// showSummary prints the summary of all the caller's feedback.
func showSummary(o *output, s *a2a.FeedbackSummary, separate bool) {
	if s.Count == 0 {
		return
	}
	if separate {
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
	maxCount := 1
	for _, n := range s.Ratings {
		maxCount = max(maxCount, n)
	}
	const maxBar = 30
	for rating := 5; rating >= 1; rating-- {
		n := s.Ratings[strconv.Itoa(rating)]
		bar := strings.Repeat("#", (n*maxBar+maxCount-1)/maxCount)
		o.line("%s", strings.TrimRight(fmt.Sprintf("  %d  %5d  %s", rating, n, bar), " "))
	}
}
