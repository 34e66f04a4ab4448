package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
)

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

// sessions returns the transcripts as a history.SessionLister.
func (k *kept) sessions() (history.SessionLister, error) {
	lister, ok := transcripts.In(k.Stores).(history.SessionLister)
	if !ok {
		return nil, without("lists of sessions; set --agent")
	}
	return lister, nil
}

// agentFlag selects the sessions of an agent.
type agentFlag struct {
	Agent string `placeholder:"NAME" group:"Filter:" help:"Only sessions of this agent."`
}

// session returns the key of a session. Without --agent it searches the sessions of all agents.
func (k *kept) session(ctx context.Context, f *agentFlag, name string) (key history.Key, err error) {
	key = history.Key{Owner: k.owner, Agent: f.Agent, Session: name}
	lister, err := k.sessions()
	if err != nil && f.Agent != "" {
		return key, nil // the store cannot check whether it exists
	}
	if err != nil {
		return key, err
	}
	if f.Agent != "" {
		if _, err := lister.Session(ctx, key); errors.Is(err, history.ErrNotFound) {
			return key, k.notFound("session", name)
		} else if err != nil {
			return key, err
		}
		return key, nil
	}
	var agents []string
	for q := (history.SessionQuery{Owner: k.owner, Limit: history.MaxPage}); ; {
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
		return key, k.notFound("session", name)
	case 1:
		key.Agent = agents[0]
		return key, nil
	}
	return key, usagef("--agent is required: the agents %s have a session %s", strings.Join(sorted(agents), ", "), a2a.Quote(name))
}

type historyListCmd struct {
	agentFlag

	pageFlags `group:"Pages:" set:"items=Sessions" set:"item=session" set:"but="`
	keptFlags
}

// Run lists sessions.
func (c *historyListCmd) Run(ctx context.Context, a *app) error {
	t := &table{a: a, what: "sessions", member: "sessions", columns: []column{{"AGENT", 16}, {"MESSAGES", -8}, {"BYTES", -10}, {"UPDATED", -7}, {"EXPIRES", -7}, {"SESSION", 0}}}
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		lister, err := k.sessions()
		if err != nil {
			return nil, "", err
		}
		q := history.SessionQuery{Owner: k.owner, Agent: c.Agent, Limit: c.Limit}
		if err := fromPageToken(token, &q.Next); err != nil {
			return nil, "", err
		}
		page, err := lister.Sessions(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Sessions {
			s := &page.Sessions[i]
			t.row(s.Key.Agent, strconv.FormatInt(s.Messages, 10), strconv.FormatInt(s.Bytes, 10), age(s.UpdatedAt), until(s.ExpiresAt), s.Key.Session)
			items = append(items, sessionView{s.Key.Agent, s.Key.Session, s.Messages, s.Bytes, s.Newest, s.CreatedAt.UTC(), s.UpdatedAt.UTC(), timeJSON(s.ExpiresAt)})
		}
		if page.Next != nil {
			next, err = pageToken(page.Next)
		}
		return items, next, err
	})
}

type historyShowCmd struct {
	Session string `arg:"" help:"Session."`
	Limit   int    `short:"n" default:"20" help:"Number of messages, at most 100."`
	Before  int64  `placeholder:"SEQ" help:"Show the messages before this one."`
	agentFlag

	keptFlags
}

// Run shows messages.
func (c *historyShowCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > maxPage || c.Before < 0 {
		return usagef("--limit must be 1 to %d, and --before must not be negative", maxPage)
	}
	return c.with(ctx, a, false, func(k *kept) error {
		key, err := k.session(ctx, &c.agentFlag, c.Session)
		if err != nil {
			return err
		}
		page, err := transcripts.In(k.Stores).Page(ctx, key, history.Before(c.Before, c.Limit))
		if err != nil {
			return err
		}
		if a.json {
			views := make([]messageView, len(page.Messages))
			for i := range page.Messages {
				views[i] = viewMessage(&page.Messages[i])
			}
			return a.writeResult(map[string]any{"agent": key.Agent, "session": key.Session, "messages": views, "more": page.More})
		}
		for i := range page.Messages {
			if i > 0 {
				a.out.line("")
			}
			m := &page.Messages[i]
			head := fmt.Sprintf("%d  %s", m.Seq, timeText(m.CreatedAt))
			if m.Run != "" {
				head += "  run " + m.Run
			}
			a.out.line("%s", strings.TrimSpace(a.out.bold(oneLine(m.Role, 0))+"  "+a.out.dim(oneLine(head, 0))))
			a.out.line("%s", clean(messageText(m)))
		}
		if page.More {
			a.info("more results: --before %d shows earlier messages", page.Messages[0].Seq)
		}
		return nil
	})
}

type historySearchCmd struct {
	Text    string `arg:"" help:"Text that messages contain, whatever its case."`
	Words   bool   `help:"Find messages with all words of the text, in any order."`
	Session string `placeholder:"NAME" group:"Filter:" help:"Only this session; needs --agent."`
	agentFlag

	pageFlags `group:"Pages:" set:"items=Messages" set:"item=message" set:"but="`
	keptFlags
}

// Run searches messages.
func (c *historySearchCmd) Run(ctx context.Context, a *app) error {
	if c.Session != "" && c.Agent == "" {
		return usagef("--session needs --agent")
	}
	t := &table{a: a, what: "messages", member: "messages", columns: []column{{"AGENT", 12}, {"SESSION", 36}, {"SEQ", -6}, {"CREATED", -7}, {"ROLE", 9}, {"TEXT", 0}}}
	t.fit()
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		searcher, ok := transcripts.In(k.Stores).(history.Searcher)
		if !ok {
			return nil, "", without("searches of transcripts")
		}
		q := history.SearchQuery{Owner: k.owner, Agent: c.Agent, Session: c.Session, Text: c.Text, Words: c.Words, Limit: c.Limit}
		if err := fromPageToken(token, &q.Next); err != nil {
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
				t.row(h.Key.Agent, h.Key.Session, strconv.FormatInt(h.Message.Seq, 10), age(h.Message.CreatedAt), h.Message.Role, messageText(&h.Message))
				view := viewMessage(&h.Message)
				view.Agent, view.Session = h.Key.Agent, h.Key.Session
				items = append(items, view)
			}
			if q.Next = page.Next; q.Next == nil {
				return items, "", nil
			}
		}
		next, err = pageToken(q.Next)
		return items, next, err
	})
}

type historyExportCmd struct {
	Session string `arg:"" help:"Session."`
	Output  string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`
	agentFlag

	keptFlags
}

// Run exports a session.
func (c *historyExportCmd) Run(ctx context.Context, a *app) error {
	toFile := c.Output != "" && c.Output != "-"
	return c.with(ctx, a, false, func(k *kept) error {
		key, err := k.session(ctx, &c.agentFlag, c.Session)
		if err != nil {
			return err
		}
		n := 0
		export := func(w io.Writer) error {
			lines := json.NewEncoder(w)
			lines.SetEscapeHTML(false)
			for m, err := range history.All(ctx, transcripts.In(k.Stores), key, 0) {
				if err == nil {
					err = lines.Encode(viewMessage(&m))
				}
				if err != nil {
					return err
				}
				n++
			}
			return nil
		}
		if !toFile {
			return export(a.out.w)
		}
		if err := replaceFile(c.Output, export); err != nil {
			return err
		}
		if a.json {
			return a.writeResult(map[string]any{"messages": n})
		}
		a.info("exported %s to %s", plural(int64(n), "message"), c.Output)
		return nil
	})
}

type historyClearCmd struct {
	Sessions []string `arg:"" name:"session" help:"Sessions."`
	agentFlag
	confirmFlag

	keptFlags
}

// Run clears sessions. It continues after errors.
func (c *historyClearCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(a); err != nil {
		return err
	}
	return c.with(ctx, a, true, func(k *kept) error {
		describe := func(name string) (string, error) {
			key, err := k.session(ctx, &c.agentFlag, name)
			if err != nil {
				return "", err
			}
			n, err := transcripts.In(k.Stores).Count(ctx, key)
			return fmt.Sprintf("session %s of agent %s with %s", name, key.Agent, plural(n, "message")), err
		}
		return c.delete(ctx, a, c.Sessions, describe, func(name string) error {
			key, err := k.session(ctx, &c.agentFlag, name)
			if err == nil {
				err = transcripts.In(k.Stores).Clear(ctx, key)
			}
			if err != nil {
				return err
			}
			return a.done(map[string]any{"agent": key.Agent, "session": name}, "cleared "+name)
		})
	})
}
