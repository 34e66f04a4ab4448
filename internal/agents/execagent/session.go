package execagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// session is one turn: a program and what has been said.
type session struct {
	a   *agent
	ctx context.Context
	t   *holdfast.Turn
	log *slog.Logger

	p      *process
	in     *input
	out    *output
	errors *errorLog

	progress progress
	step     string // that is open, "" if none is
	inbox    inbox
}

// errSilent: the program has ended its output without saying how the turn ends.
var errSilent = errors.New("end of output")

// begin starts the program.
func (a *agent) begin(ctx context.Context, t *holdfast.Turn) (*session, error) {
	s := &session{a: a, ctx: ctx, t: t, log: a.cfg.Logger.With("task", t.TaskID(), "attempt", t.Attempt(), "program", a.name)}
	first, err := a.firstLine(ctx, t)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(a.path, a.args...) //nolint:gosec,noctx // the operator chose it; ended by process.end, which asks first
	cmd.Dir = a.cfg.Dir
	cmd.Env = append(a.cfg.Env[:len(a.cfg.Env):len(a.cfg.Env)],
		reserved+"TASK_ID="+t.TaskID(), reserved+"CONTEXT_ID="+t.ContextID(),
		reserved+"TURN="+strconv.Itoa(t.Number()), reserved+"ATTEMPT="+strconv.Itoa(t.Attempt()))
	p, err := start(cmd)
	if err != nil {
		s.log.Error("start program", "error", err)
		return nil, startError(a.name, err)
	}
	s.p = p
	s.errors = newErrorLog(p.stderr, s.log)
	s.out = newOutput(p.stdout, a.cfg.Plain, a.cfg.MaxLine)
	s.in = newInput(p.stdin)
	s.in.queue <- first // it has room
	if a.cfg.Plain {
		s.in.finish(nil)
	}
	return s, nil
}

// firstLine is what the program reads first. The memory for it is held until it is written.
func (a *agent) firstLine(ctx context.Context, t *holdfast.Turn) (l line, err error) {
	if a.cfg.Plain {
		if l.release, err = reserve(ctx, t, sizeOf(t.Messages())); err == nil {
			l.data = []byte(t.Text())
		}
		return l, err
	}
	turn := newTurnLine(t)
	if l.release, err = reserve(ctx, t, 2*(sizeOf(turn.Messages)+sizeOf(turn.History))); err != nil {
		return l, err
	}
	if l.data, err = encode(turn); err != nil {
		return l, fmt.Errorf("encode turn: %w", err)
	}
	return l, nil
}

// smallLine is the size up to which no memory is held for a line.
const smallLine = 64 << 10

// reserve holds memory for a line of a size. What is refused may pass.
func reserve(ctx context.Context, t *holdfast.Turn, size int) (release func(), err error) {
	if size <= smallLine {
		return func() {}, nil
	}
	release, err = t.Reserve(ctx, int64(size))
	if a2a.CodeOf(err) == a2a.CodeExhausted {
		err = holdfast.Retry(err)
	}
	return release, err
}

// startError is for the client: it says what is wrong without the server's paths.
func startError(name string, err error) error {
	reason := err
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		reason = inner
	}
	told := fmt.Errorf("the program %s could not be started: %s", name, reason) //nolint:errorlint // the chain is logged
	if passing(err) {
		return holdfast.Retry(told)
	}
	return told
}

// encode makes a line of a message.
func encode(message any) ([]byte, error) {
	line, err := wire.Marshal(message)
	return append(line, '\n'), err
}

// run talks to the program until the turn ends, ends the program, and returns
// the turn's outcome.
func (s *session) run() error {
	_, err := s.converse()
	if errors.Is(err, errSilent) {
		select {
		case <-s.p.exited:
		case <-s.ctx.Done():
			err = context.Cause(s.ctx)
		}
	}
	s.progress.stop()
	s.inbox.stop()
	s.close(err)
	if errors.Is(err, errSilent) {
		return s.silentEnd()
	}
	return err
}

// close ends the program and everything that serves it.
func (s *session) close(end error) {
	s.out.ignore()
	hurry := s.ctx.Done()
	if s.ctx.Err() != nil {
		line, _ := encode(cancelLine{Reason: reason(s.ctx)}) // it has nothing that could not be encoded
		if s.a.cfg.Plain {
			line = nil
		}
		s.in.finish(line)
	} else {
		s.in.finish(nil)
		if !isOutcome(end) {
			now := make(chan struct{})
			close(now)
			hurry = now
		}
	}
	s.p.end(s.a.cfg.Grace, hurry)
	s.in.abandon()
	s.out.drain()
	<-s.errors.done
	s.p.clear()
	s.p.stdout.close()
	s.p.stderr.close()
	if s.out.extra > 0 && isOutcome(end) {
		s.log.Warn("program wrote after its result, which was ignored", "lines", s.out.extra)
	}
	s.logExit(end)
}

// logExit logs how the program ended; end is what ended the turn.
func (s *session) logExit(end error) {
	exit := errors.New("exited with status 0")
	err := s.p.failure()
	if err != nil {
		exit = err
	}
	switch {
	case s.ctx.Err() != nil:
		s.log.Info("program was ended", "exit", exit, "cause", context.Cause(s.ctx))
	case err == nil && (isOutcome(end) || errors.Is(end, errSilent) && s.step == ""):
		s.log.Debug("program ended", "exit", exit)
	case isOutcome(end):
		s.log.Warn("program did not end well after its result", "exit", exit)
	default:
		s.log.Warn("program ended without a result", "exit", exit, "cause", end)
	}
}

// isOutcome reports whether the turn ended as the program said.
func isOutcome(end error) bool {
	var told *outcome
	return errors.As(end, &told)
}

// outcome is what the program said; it carries what the handler returns.
type outcome struct{ error }

func (o *outcome) Unwrap() error { return o.error }

// reason names why a program is cancelled.
func reason(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, holdfast.ErrCanceled):
		return "canceled"
	case errors.Is(cause, holdfast.ErrStopping), errors.Is(cause, holdfast.ErrLeaseLost):
		return "stopping"
	}
	return "timeout"
}

// silentEnd judges a program that is over and has not said how the turn ends.
func (s *session) silentEnd() error {
	err := s.p.failure()
	switch {
	case err == nil && s.step == "":
		return nil
	case err == nil:
		err = errors.New("exited")
	}
	text := fmt.Sprintf("the program %s %s without a result", s.a.name, err)
	if s.step != "" {
		text += " within step " + a2a.Quote(s.step)
	}
	if last := printable(s.errors.last); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// converse does what the program says until it ends the turn, which is told as an
// error, or the open step, whose result is returned.
func (s *session) converse() (json.RawMessage, error) {
	for {
		select {
		case c, ok := <-s.out.chunks:
			if !ok {
				return nil, errSilent
			}
			result, done, err := s.hear(c)
			if err != nil || done {
				return result, err
			}
		case arrived := <-s.inbox.arrived:
			if err := s.deliver(arrived); err != nil {
				return nil, err
			}
		case <-s.progress.due():
			if err := s.progress.flush(s.t); err != nil {
				return nil, err
			}
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
	}
}

// hear takes a chunk of the output. It is done when the chunk completes the open
// step.
func (s *session) hear(c chunk) (result json.RawMessage, done bool, err error) {
	if s.a.cfg.Plain {
		_, err := s.t.OpenArtifact("output").Write(c.data)
		return nil, false, err
	}
	if c.long {
		return nil, false, breach(c.line, "is longer than the limit of %d bytes: %s", s.a.cfg.MaxLine, quoted(c.data))
	}
	m, err := parse(c.line, c.data)
	if err != nil {
		return nil, false, err
	}
	if m.Type == "step_done" {
		if s.step == "" || m.Name != s.step {
			return nil, false, breach(c.line, "ends the step %s, which is not open", a2a.Quote(m.Name))
		}
		return m.Result, true, nil
	}
	return nil, false, s.obey(c.line, m)
}

// send writes a line to the program. A program that is gone is met where its
// output is read.
func (s *session) send(message any) error {
	data, err := encode(message)
	if err != nil {
		return fmt.Errorf("encode line for program: %w", err)
	}
	return s.enqueue(line{data: data})
}

// sendContent is send for a line that holds messages of the client: memory is held for it until
// it is written.
func (s *session) sendContent(message any, messages []a2a.Message) error {
	release, err := reserve(s.ctx, s.t, 2*sizeOf(messages))
	if err != nil {
		return err
	}
	data, err := encode(message)
	if err != nil {
		return fmt.Errorf("encode line for program: %w", err)
	}
	return s.enqueue(line{data: data, release: release})
}

func (s *session) enqueue(l line) error {
	select {
	case s.in.queue <- l:
	case <-s.p.exited:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	return nil
}

// deliver hands messages of the client over, if the inbox got any.
func (s *session) deliver(arrived received) error {
	s.inbox.close()
	if arrived.err != nil {
		return arrived.err
	}
	return s.sendContent(newMessageLine(arrived.messages), arrived.messages)
}

// received is what came of waiting for messages.
type received struct {
	messages []a2a.Message
	err      error
}

// inbox waits for messages for the program. Its zero value is ready to use.
type inbox struct {
	arrived chan received // nil unless it waits
	cancel  context.CancelFunc
}

// wait begins to wait, if it does not yet.
func (in *inbox) wait(ctx context.Context, t *holdfast.Turn) {
	if in.arrived != nil {
		return
	}
	ctx, in.cancel = context.WithCancel(ctx)
	arrived := make(chan received, 1)
	in.arrived = arrived
	go func() {
		messages, err := t.Receive(ctx)
		arrived <- received{messages, err}
	}()
}

// close forgets a wait whose answer has been taken.
func (in *inbox) close() {
	in.cancel()
	in.arrived = nil
}

// stop ends a wait and returns when nothing waits any more.
func (in *inbox) stop() {
	if in.arrived == nil {
		return
	}
	in.cancel()
	<-in.arrived
	in.arrived = nil
}

// progress tells statuses. A program may tell a hundred at once and twenty a
// second; beyond that the newest replaces those that wait, since each is an event
// that is stored for good.
type progress struct {
	credit  float64
	at      time.Time // when credit was counted
	waiting string
	timer   *time.Timer
}

const (
	statusBurst = 100
	statusRate  = 20 // a second
)

func (p *progress) tell(t *holdfast.Turn, text string) error {
	p.count()
	if p.credit >= 1 {
		p.credit--
		p.waiting = ""
		return t.Status(text)
	}
	if p.waiting = text; p.timer == nil {
		p.timer = time.NewTimer(time.Second / statusRate)
	}
	return nil
}

// count adds the credit that has come with time.
func (p *progress) count() {
	now := time.Now()
	if p.at.IsZero() {
		p.credit = statusBurst
	} else {
		p.credit = min(statusBurst, p.credit+statusRate*now.Sub(p.at).Seconds())
	}
	p.at = now
}

// pace waits until one more event may be stored that cannot be left out.
func (p *progress) pace(ctx context.Context) error {
	for p.count(); p.credit < 1; p.count() {
		wait := time.NewTimer(time.Second / statusRate)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
	}
	p.credit--
	return nil
}

// due is ready when a status that waits may be told.
func (p *progress) due() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

func (p *progress) flush(t *holdfast.Turn) error {
	p.stop()
	if p.waiting == "" {
		return nil
	}
	return p.tell(t, p.waiting)
}

func (p *progress) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
