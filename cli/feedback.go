package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// tasksFeedbackCmd gives feedback on a task, or lists what was given.
type tasksFeedbackCmd struct {
	ID       string   `arg:"" optional:"" help:"Task id. Optional with --list; without it, feedback on all your tasks."`
	Text     []string `arg:"" optional:"" help:"Feedback text; - reads it from stdin."`
	Rating   *int     `short:"r" group:"Give:" help:"Rating from 1 to 5; 5 is best."`
	Metadata []string `sep:"none" placeholder:"KEY=TEXT|JSON" group:"Give:" help:"Your metadata: key=text or a JSON object. Repeatable."`

	List bool `short:"l" group:"List:" help:"List feedback, newest first, and a summary."`

	command.PageFlags `group:"List:" set:"items=Entries" set:"item=entry" set:"but=, without the summary"`
	connection
}

// Run gives or lists feedback.
func (c *tasksFeedbackCmd) Run(ctx context.Context, a *app) error {
	hasFeedback := c.Rating != nil || len(c.Text) > 0 || len(c.Metadata) > 0
	hint := "see: " + a.name + " help tasks feedback"
	switch {
	case c.List && hasFeedback:
		return command.WithHint(command.Usagef("--list and feedback must not both be given"), hint)
	case !c.List && c.ID == "":
		return command.WithHint(command.Usagef("a task id or --list is required"), hint)
	case !c.List && c.Rating == nil && len(c.Text) == 0:
		return command.WithHint(command.Usagef("no feedback given: set --rating N, a text or both; --list lists feedback"), hint)
	}
	if c.List {
		return c.list(ctx, a)
	}
	params := a2a.TaskFeedbackParams{TaskID: c.ID, Feedback: strings.Join(c.Text, " "), Rating: c.Rating}
	if params.Feedback == "-" {
		text, err := readLimited(a.Stdin, "stdin")
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
	return c.change(ctx, a, a2a.MethodFeedback, params, "saved feedback on "+c.ID)
}

func (c *tasksFeedbackCmd) list(ctx context.Context, a *app) error {
	t := command.NewTable(&a.Console, "feedback", "TASK:36", "RATING:-6", "AGE:-4", "TEXT")
	t.Fit()
	var summary a2a.FeedbackSummary
	err := list[a2a.ListTaskFeedbackResult]{
		a2a.MethodFeedbackList,
		func(token string) any {
			return a2a.ListTaskFeedbackParams{TaskID: c.ID, PageSize: &c.Limit, PageToken: token}
		},
		func(page *a2a.ListTaskFeedbackResult) string {
			for _, f := range page.Feedback {
				rating := "-"
				if f.Rating != nil {
					rating = strconv.Itoa(*f.Rating)
				}
				t.Row(f.TaskID, rating, command.Age(f.CreatedAt), f.Feedback)
			}
			summary = page.Summary
			return page.NextPageToken
		},
	}.show(ctx, a, &c.connection, &c.PageFlags, t)
	if err == nil && !a.JSON {
		showSummary(a.Out, &summary, t.Rows > 0)
	}
	return err
}

// showSummary prints the summary of all the caller's feedback.
func showSummary(o *command.Output, s *a2a.FeedbackSummary, separate bool) {
	if s.Count == 0 {
		return
	}
	if separate {
		o.Line("")
	}
	line := fmt.Sprintf("all feedback: %d", s.Count)
	if s.Rated != s.Count {
		line += fmt.Sprintf(", %d rated", s.Rated)
	}
	if s.Average != nil {
		line += fmt.Sprintf(", average %.1f", *s.Average)
	}
	o.Line("%s", line)
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
		o.Line("%s", strings.TrimRight(fmt.Sprintf("  %d  %5d  %s", rating, n, bar), " "))
	}
}
