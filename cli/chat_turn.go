package cli

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
)

// send sends a message with the attached files and shows the answer.
func (c *chat) send(ctx context.Context, text string) error {
	var parts []a2a.Part
	if text != "" {
		parts = append(parts, a2a.TextPart{Text: text})
	}
	// The key allows the client to retry a connection that was lost before the answer.
	params := client.SendParams{Message: client.UserMessage(append(parts, c.files...)...), IdempotencyKey: uuid.NewString()}
	params.Message.ContextID = c.contextID
	v := c.waiting
	if v == nil {
		v = c.newViewer()
	} else {
		params.Message.TaskID = v.taskID
	}
	err := c.turn(ctx, v, func(ctx context.Context) iter.Seq2[client.Update, error] { return c.stream(ctx, params) })
	if accepted := err == nil || v != c.waiting && v.taskID != ""; accepted {
		c.files = nil
	}
	return c.finishTurn(v, err)
}

// stream sends a message and yields the task's updates. It polls if the agent does not support
// streaming.
func (c *chat) stream(ctx context.Context, params client.SendParams) iter.Seq2[client.Update, error] {
	return func(yield func(client.Update, error) bool) {
		for u, err := range c.cl.Stream(ctx, params) {
			switch a2a.CodeOf(err) {
			case a2a.CodeUnsupported, a2a.CodeMethodNotFound, a2a.CodeInvalidAgentResponse:
				c.poll(ctx, params, yield)
				return
			default:
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}

// poll sends a message and yields the task's updates without streaming.
func (c *chat) poll(ctx context.Context, params client.SendParams, yield func(client.Update, error) bool) {
	event, err := c.cl.Send(ctx, params)
	for delay := 100 * time.Millisecond; ; delay = min(delay*3/2, 5*time.Second) {
		task, ok := event.(*a2a.Task)
		if err != nil || !ok || task.Status.State.Final() {
			yield(client.Update{Event: event}, err)
			return
		}
		// The artifacts are shown when they are complete.
		if !yield(client.Update{Event: &a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status}}, nil) {
			return
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			yield(client.Update{}, context.Cause(ctx))
			return
		}
		if task, err = c.cl.Task(ctx, a2a.TaskQueryParams{ID: task.ID}); err == nil {
			event = task
		}
	}
}

// follow shows a running task.
func (c *chat) follow(ctx context.Context, task *a2a.Task) error {
	v := c.newViewer()
	err := c.turn(ctx, v, func(ctx context.Context) iter.Seq2[client.Update, error] { return c.cl.Resubscribe(ctx, task.ID, "") })
	return c.finishTurn(v, err)
}

// update is an item of a turn's stream, or the error that ended it.
type update struct {
	client.Update
	err error
}

// turn shows a task's updates until its turn ends. It returns errInterrupted after two interrupts.
func (c *chat) turn(ctx context.Context, v *viewer, open func(context.Context) iter.Seq2[client.Update, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	updates := make(chan update)
	go func() {
		defer close(updates)
		for u, err := range open(ctx) {
			select {
			case updates <- update{u, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel(errInterrupted)
		for {
			select {
			case _, more := <-updates:
				if !more {
					return
				}
			case <-c.reconnects:
			}
		}
	}()
	v.art.nextTurn()
	v.line.last = ""
	v.line.show("…")
	stop := canceler{c: c, v: v}
	for {
		select {
		case u, more := <-updates:
			if !more || u.err != nil {
				return u.err
			}
			if done := c.showUpdate(v, u); done {
				return nil
			}
			stop.sendIfReady(ctx)
		case r := <-c.reconnects:
			v.reconnecting(r)
		case <-c.interrupts:
			if stop.asked {
				return errInterrupted
			}
			stop.ask(ctx)
		case err := <-stop.refused:
			v.line.clear()
			c.a.Info("not canceled (%s); press Ctrl-C again to end the chat", command.OneLine(err.Error(), 80))
		}
	}
}

// showUpdate shows an update. It reports whether the update was a message, which ends the turn.
func (c *chat) showUpdate(v *viewer, u update) bool {
	if c.a.JSON && u.Raw != nil {
		c.a.Out.JSON(inV03(c.cl, u.Raw, u.Event))
	}
	if m, ok := u.Event.(*a2a.Message); ok {
		if m.ContextID != "" {
			c.contextID = m.ContextID
		}
		if !c.a.JSON {
			v.art.printComplete(a2a.Artifact{Parts: m.Parts})
		}
		return true
	}
	v.showEvent(u.Event)
	if v.contextID != "" {
		c.contextID = v.contextID
	}
	return false
}

// canceler cancels the task of a turn, as soon as the task's id is known.
type canceler struct {
	c       *chat
	v       *viewer
	asked   bool
	sent    bool
	refused chan error
}

func (s *canceler) ask(ctx context.Context) {
	s.asked, s.refused = true, make(chan error, 1)
	s.v.art.breakLine()
	s.v.line.clear()
	s.c.a.Info("%s", s.c.a.Err.Dim("canceling; press Ctrl-C again to end the chat"))
	s.sendIfReady(ctx)
}

// sendIfReady sends the request if it was asked for, not yet sent, and the task's id is known.
func (s *canceler) sendIfReady(ctx context.Context) {
	if !s.asked || s.sent || s.v.taskID == "" {
		return
	}
	s.sent = true
	id, refused := s.v.taskID, s.refused
	go func() {
		_, err := s.c.cl.Cancel(ctx, id)
		if err != nil && ctx.Err() == nil && a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
			refused <- err
		}
	}()
}

// finishTurn shows the outcome of a turn, and keeps a paused task for the next message.
func (c *chat) finishTurn(v *viewer, err error) error {
	v.line.clear()
	v.art.end()
	if err != nil {
		if v.taskID != "" && !v.status.State.Final() && !errors.Is(err, errInterrupted) {
			c.waiting = nil
			c.a.Info("The task continues. Follow it: %s tasks follow%s %s", c.a.name, c.conn.flags(), v.taskID)
		}
		return err
	}
	c.last, c.waiting = nil, nil
	if v.taskID == "" {
		return nil // a message
	}
	state := v.status.State
	if state.Paused() {
		c.waiting = v
	}
	if !c.a.JSON {
		c.outcome(v, state)
	}
	if code := exitOfState(state); code != exitOK {
		return exitStatus(code)
	}
	return nil
}

// outcome shows the agent's last message: an answer or a question on stdout, others on stderr.
func (c *chat) outcome(v *viewer, state a2a.TaskState) {
	text := ""
	if v.status.Message != nil {
		text = strings.TrimRight(v.status.Message.Text(), "\n")
	}
	o := c.a.Err
	switch {
	case state == a2a.StateInputRequired && text != "", state == a2a.StateCompleted && text != "" && !v.art.printed:
		c.a.Out.Text(text + "\n")
	case state == a2a.StateCompleted && text != "":
		if !v.art.said(text) {
			o.Line("%s", o.Dim(command.Clean(text)))
		}
	case state == a2a.StateCompleted:
		if !v.art.printed {
			o.Line("%s", o.Dim("completed without an answer"))
		}
	case state == a2a.StateInputRequired:
		o.Line("%s", o.Dim("the agent asks for input"))
	case state == a2a.StateAuthRequired:
		o.Line("%s %s", o.Bold("the agent waits for authorization:"), command.Clean(text))
		o.Line("%s", o.Dim("The next line continues the task; /cancel cancels it."))
	case state.Paused():
		o.Line("%s %s", o.Bold(string(state)+":"), command.Clean(text))
	default:
		if text != "" {
			text = ": " + text
		}
		o.Line("%s%s", o.Red(string(state)), command.Clean(text))
	}
}

// cancelWaiting cancels the paused task.
func (c *chat) cancelWaiting(ctx context.Context) error {
	if c.waiting == nil {
		return errors.New("no task waits for an answer")
	}
	if _, err := c.cl.Cancel(ctx, c.waiting.taskID); err != nil {
		return err
	}
	c.waiting, c.last = nil, exitStatus(exitCanceled)
	c.a.Info("%s", c.a.Err.Dim("canceled; the next message starts a new task"))
	return nil
}
