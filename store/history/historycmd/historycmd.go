// Package historycmd has the command holdfast history.
package historycmd

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
)

//go:embed help.txt
var help string

// Command is the command of the contract.
var Command = command.Command{Name: "history", Help: "List, show, search, export and delete transcripts of an owner, in the store.", Details: help, New: func() any { return new(historyCmd) }}

// historyCmd has the commands for transcripts.
type historyCmd struct {
	List   historyListCmd   `cmd:"" help:"List sessions, the most recently written first."`
	Show   historyShowCmd   `cmd:"" help:"Show the newest messages of a session."`
	Search historySearchCmd `cmd:"" help:"Find messages by their text; those of a session are the newest first."`
	Export historyExportCmd `cmd:"" help:"Write the messages of a session as JSON Lines."`
	Clear  historyClearCmd  `cmd:"" help:"Delete sessions with all their messages."`
}

// sessionView is a session in the JSON output.
type sessionView struct {
	Agent     string     `json:"agent"`
	Session   string     `json:"session"`
	Messages  int64      `json:"messages"`
	Bytes     int64      `json:"bytes"`
	Newest    int64      `json:"newest"`
	CreatedAt time.Time  `json:"createdAt"`
	UpdatedAt time.Time  `json:"updatedAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// messageView is a message in the JSON output. Agent and Session are set in results of searches.
type messageView struct {
	Agent       string          `json:"agent,omitempty"`
	Session     string          `json:"session,omitempty"`
	Seq         int64           `json:"seq"`
	Run         string          `json:"run,omitempty"`
	Role        string          `json:"role,omitempty"`
	CreatedAt   time.Time       `json:"createdAt"`
	Body        json.RawMessage `json:"body"`
	ToolCalls   []string        `json:"toolCalls,omitempty"`
	ToolResults []string        `json:"toolResults,omitempty"`
}

func viewMessage(m *history.Message) messageView {
	return messageView{Seq: m.Seq, Run: m.Run, Role: m.Role, CreatedAt: m.CreatedAt.UTC(), Body: m.Body, ToolCalls: m.ToolCalls, ToolResults: m.ToolResults}
}

// messageText returns the text of a message for people: the strings of its body.
func messageText(m *history.Message) string {
	var text string
	if json.Unmarshal(m.Body, &text) == nil {
		return text
	}
	return string(m.Body)
}

// sessionLister returns the transcripts as a history.SessionLister.
func sessionLister(k *command.Data) (history.SessionLister, error) {
	lister, ok := transcripts.In(k.Stores).(history.SessionLister)
	if !ok {
		return nil, command.Without("lists of sessions; set --agent")
	}
	return lister, nil
}

// agentFlag selects the sessions of an agent.
type agentFlag struct {
	Agent string `placeholder:"NAME" group:"Filter:" help:"Only sessions of this agent."`
}

// sessionKey returns the key of a session. Without --agent it searches the sessions of all agents.
func sessionKey(ctx context.Context, k *command.Data, f *agentFlag, name string) (key history.Key, err error) {
	key = history.Key{Owner: k.Owner, Agent: f.Agent, Session: name}
	lister, err := sessionLister(k)
	if err != nil && f.Agent != "" {
		return key, nil // the store cannot check whether it exists
	}
	if err != nil {
		return key, err
	}
	if f.Agent != "" {
		if _, err := lister.Session(ctx, key); errors.Is(err, history.ErrNotFound) {
			return key, k.NotFound("session", name)
		} else if err != nil {
			return key, err
		}
		return key, nil
	}
	var agents []string
	for q := (history.SessionQuery{Owner: k.Owner, Limit: history.MaxPage}); ; {
		page, err := lister.Sessions(ctx, q)
		if err != nil {
			return key, err
		}
		for i := range page.Sessions {
			if s := &page.Sessions[i]; s.Key.Session == name && !slices.Contains(agents, s.Key.Agent) {
				agents = append(agents, s.Key.Agent)
			}
		}
		if q.Next = page.Next; q.Next == nil {
			break
		}
	}
	switch len(agents) {
	case 0:
		return key, k.NotFound("session", name)
	case 1:
		key.Agent = agents[0]
		return key, nil
	}
	return key, command.Usagef("--agent is required: the agents %s have a session %s", strings.Join(slices.Sorted(slices.Values(agents)), ", "), a2a.Quote(name))
}

type historyListCmd struct {
	agentFlag

	command.PageFlags `group:"Pages:" set:"items=Sessions" set:"item=session" set:"but="`
	command.DataFlags
}

// Run lists sessions.
func (c *historyListCmd) Run(ctx context.Context, a *command.Console) error {
	t := command.NewTable(a, "sessions", "AGENT:16", "MESSAGES:-8", "BYTES:-10", "UPDATED:-7", "EXPIRES:-7", "SESSION")
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		lister, err := sessionLister(k)
		if err != nil {
			return nil, "", err
		}
		q := history.SessionQuery{Owner: k.Owner, Agent: c.Agent, Limit: c.Limit}
		if err := command.FromPageToken(token, &q.Next); err != nil {
			return nil, "", err
		}
		page, err := lister.Sessions(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Sessions {
			s := &page.Sessions[i]
			t.Row(s.Key.Agent, strconv.FormatInt(s.Messages, 10), strconv.FormatInt(s.Bytes, 10), command.Age(s.UpdatedAt), command.Until(s.ExpiresAt), s.Key.Session)
			items = append(items, sessionView{s.Key.Agent, s.Key.Session, s.Messages, s.Bytes, s.Newest, s.CreatedAt.UTC(), s.UpdatedAt.UTC(), command.TimeJSON(s.ExpiresAt)})
		}
		if page.Next != nil {
			next, err = command.PageToken(page.Next)
		}
		return items, next, err
	})
}

type historyShowCmd struct {
	Session string `arg:"" help:"Session."`
	Limit   int    `short:"n" default:"20" help:"Number of messages, at most 100."`
	Before  int64  `placeholder:"SEQ" help:"Show the messages before this one."`
	agentFlag

	command.DataFlags
}

// Run shows messages.
func (c *historyShowCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Limit < 1 || c.Limit > command.MaxPage || c.Before < 0 {
		return command.Usagef("--limit must be 1 to %d, and --before must not be negative", command.MaxPage)
	}
	return c.With(ctx, false, func(k *command.Data) error {
		key, err := sessionKey(ctx, k, &c.agentFlag, c.Session)
		if err != nil {
			return err
		}
		page, err := transcripts.In(k.Stores).Page(ctx, key, history.Before(c.Before, c.Limit))
		if err != nil {
			return err
		}
		if a.JSON {
			views := make([]messageView, len(page.Messages))
			for i := range page.Messages {
				views[i] = viewMessage(&page.Messages[i])
			}
			return a.WriteResult(map[string]any{"agent": key.Agent, "session": key.Session, "messages": views, "more": page.More})
		}
		for i := range page.Messages {
			if i > 0 {
				a.Out.Line("")
			}
			m := &page.Messages[i]
			head := fmt.Sprintf("%d  %s", m.Seq, command.TimeText(m.CreatedAt))
			if m.Run != "" {
				head += "  run " + m.Run
			}
			a.Out.Line("%s", strings.TrimSpace(a.Out.Bold(command.OneLine(m.Role, 0))+"  "+a.Out.Dim(command.OneLine(head, 0))))
			a.Out.Line("%s", command.Clean(messageText(m)))
		}
		if page.More {
			a.Info("more results: --before %d shows earlier messages", page.Messages[0].Seq)
		}
		return nil
	})
}

type historySearchCmd struct {
	Text    string `arg:"" help:"Text that messages contain, whatever its case."`
	Words   bool   `help:"Find messages with all words of the text, in any order."`
	Session string `placeholder:"NAME" group:"Filter:" help:"Only this session; needs --agent."`
	agentFlag

	command.PageFlags `group:"Pages:" set:"items=Messages" set:"item=message" set:"but="`
	command.DataFlags
}

// Run searches messages.
func (c *historySearchCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Session != "" && c.Agent == "" {
		return command.Usagef("--session needs --agent")
	}
	t := command.NewTable(a, "messages", "AGENT:12", "SESSION:36", "SEQ:-6", "CREATED:-7", "ROLE:9", "TEXT")
	t.Fit()
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		searcher, ok := transcripts.In(k.Stores).(history.Searcher)
		if !ok {
			return nil, "", command.Without("searches of transcripts")
		}
		q := history.SearchQuery{Owner: k.Owner, Agent: c.Agent, Session: c.Session, Text: c.Text, Words: c.Words, Limit: c.Limit}
		if err := command.FromPageToken(token, &q.Next); err != nil {
			return nil, "", err
		}
		// A page may be empty although more follow.
		for len(items) == 0 {
			page, err := searcher.Search(ctx, q)
			if err != nil {
				return nil, "", err
			}
			for i := range page.Hits {
				h := &page.Hits[i]
				t.Row(h.Key.Agent, h.Key.Session, strconv.FormatInt(h.Message.Seq, 10), command.Age(h.Message.CreatedAt), h.Message.Role, messageText(&h.Message))
				view := viewMessage(&h.Message)
				view.Agent, view.Session = h.Key.Agent, h.Key.Session
				items = append(items, view)
			}
			if q.Next = page.Next; q.Next == nil {
				return items, "", nil
			}
		}
		next, err = command.PageToken(q.Next)
		return items, next, err
	})
}

type historyExportCmd struct {
	Session string `arg:"" help:"Session."`
	Output  string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`
	agentFlag

	command.DataFlags
}

// Run exports a session.
func (c *historyExportCmd) Run(ctx context.Context, a *command.Console) error {
	return c.With(ctx, false, func(k *command.Data) error {
		key, err := sessionKey(ctx, k, &c.agentFlag, c.Session)
		if err != nil {
			return err
		}
		return a.ExportLines(c.Output, "message", func(line func(any) error) error {
			for m, err := range history.All(ctx, transcripts.In(k.Stores), key, 0) {
				if err == nil {
					err = line(viewMessage(&m))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

type historyClearCmd struct {
	Sessions []string `arg:"" name:"session" help:"Sessions."`
	agentFlag
	command.ConfirmFlag

	command.DataFlags
}

// Run clears sessions. It continues after errors.
func (c *historyClearCmd) Run(ctx context.Context, a *command.Console) error {
	if err := c.Check(a); err != nil {
		return err
	}
	return c.With(ctx, true, func(k *command.Data) error {
		describe := func(name string) (string, error) {
			key, err := sessionKey(ctx, k, &c.agentFlag, name)
			if err != nil {
				return "", err
			}
			n, err := transcripts.In(k.Stores).Count(ctx, key)
			return fmt.Sprintf("session %s of agent %s with %s", name, key.Agent, command.Plural(n, "message")), err
		}
		return c.Delete(ctx, a, c.Sessions, describe, func(name string) error {
			key, err := sessionKey(ctx, k, &c.agentFlag, name)
			if err == nil {
				err = transcripts.In(k.Stores).Clear(ctx, key)
			}
			if err != nil {
				return err
			}
			return a.Done(map[string]any{"agent": key.Agent, "session": name}, "cleared "+name)
		})
	})
}
