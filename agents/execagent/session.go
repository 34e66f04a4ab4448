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

// session is the execution of one turn by a program.
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
	openStep string // name of the open step, "" if none
	inbox    inbox
}

// errNoOutcome is returned if the output ends before the program has ended the turn.
var errNoOutcome = errors.New("end of output")

// startSession starts the program.
func (a *agent) startSession(ctx context.Context, t *holdfast.Turn) (*session, error) {
	s := &session{a: a, ctx: ctx, t: t, log: a.cfg.Logger.With("task", t.TaskID(), "attempt", t.Attempt(), "program", a.name)}
	first, err := a.firstLine(ctx, t)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(a.path, a.args...) //nolint:noctx // the operator configures it; process.stop ends it gracefully
	cmd.Dir = a.cfg.Dir
	cmd.Env = append(a.cfg.Env[:len(a.cfg.Env):len(a.cfg.Env)],
		settingsPrefix+"TASK_ID="+t.TaskID(), settingsPrefix+"CONTEXT_ID="+t.ContextID(),
		settingsPrefix+"TURN="+strconv.Itoa(t.Number()), settingsPrefix+"ATTEMPT="+strconv.Itoa(t.Attempt()))
	p, err := start(cmd)
	if err != nil {
		s.log.Error("starting the program failed", "error", err)
		return nil, startError(a.name, err)
	}
	s.p = p
	s.errors = newErrorLog(p.stderr, s.log)
	s.out = newOutput(p.stdout, a.cfg.Plain, a.cfg.MaxLine)
	s.in = newInput(p.stdin)
	s.in.queue <- first // the queue is empty
	if a.cfg.Plain {
		s.in.finish(nil)
	}
	return s, nil
}

// firstLine returns the turn's line. Its memory is reserved until the line is written.
func (a *agent) firstLine(ctx context.Context, t *holdfast.Turn) (l line, err error) {
	if a.cfg.Plain {
		if l.release, err = reserve(ctx, t, sizeOf(t.Messages())); err == nil {
			l.data = []byte(t.Text())
		}
		return l, err
	}
	turn := newTurnLine(ctx, t)
	if l.release, err = reserve(ctx, t, 2*(sizeOf(turn.Messages)+sizeOf(turn.History))); err != nil {
		return l, err
	}
	if l.data, err = encode(turn); err != nil {
		return l, fmt.Errorf("encode turn: %w", err)
	}
	return l, nil
}

// maxUnreservedLine is the size up to which a line needs no reserved memory.
const maxUnreservedLine = 64 << 10

// reserve reserves memory for a line, unless the line is small.
func reserve(ctx context.Context, t *holdfast.Turn, size int) (release func(), err error) {
	if size <= maxUnreservedLine {
		return func() {}, nil
	}
	return t.Reserve(ctx, int64(size))
}

// startError returns the error for the client, without paths of the server.
func startError(name string, err error) error {
	reason := err
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		reason = inner
	}
	public := fmt.Errorf("the program %s could not be started: %s", name, reason) //nolint:errorlint // the error chain is logged
	if transient(err) {
		return holdfast.Retry(public)
	}
	return public
}

// encode returns a message as a line of JSON.
func encode(message any) ([]byte, error) {
	line, err := wire.Marshal(message)
	return append(line, '\n'), err
}

// run handles the program's output until the turn ends, stops the program, and returns the
// result of the turn.
func (s *session) run() error {
	_, err := s.handleOutput()
	if errors.Is(err, errNoOutcome) {
		select {
		case <-s.p.exited:
		case <-s.ctx.Done():
			err = context.Cause(s.ctx)
		}
	}
	s.progress.stop()
	s.inbox.stop()
	s.close(err)
	if errors.Is(err, errNoOutcome) {
		return s.endWithoutOutcome()
	}
	return err
}

// close stops the program and the goroutines that serve it.
func (s *session) close(end error) {
	s.out.ignore()
	skipGrace := s.ctx.Done()
	if s.ctx.Err() != nil {
		line, _ := encode(cancelLine{Reason: reason(s.ctx)}) // cannot fail
		if s.a.cfg.Plain {
			line = nil
		}
		s.in.finish(line)
	} else {
		s.in.finish(nil)
		if !isOutcome(end) {
			now := make(chan struct{})
			close(now)
			skipGrace = now
		}
	}
	s.p.stop(s.a.cfg.Grace, skipGrace)
	s.in.abandon()
	s.out.drain()
	<-s.errors.done
	s.p.killGroup()
	s.p.stdout.close()
	s.p.stderr.close()
	if s.out.ignoredChunks > 0 && isOutcome(end) {
		s.log.Warn("ignored output of the program after its result", "lines", s.out.ignoredChunks)
	}
	s.logExit(end)
}

// logExit logs how the program ended. end is the error that ended the turn.
func (s *session) logExit(end error) {
	exit := errors.New("exited with status 0")
	err := s.p.exitError()
	if err != nil {
		exit = err
	}
	switch {
	case s.ctx.Err() != nil:
		s.log.Info("program was stopped", "exit", exit, "cause", context.Cause(s.ctx))
	case err == nil && (isOutcome(end) || errors.Is(end, errNoOutcome) && s.openStep == ""):
		s.log.Debug("program ended", "exit", exit)
	case isOutcome(end):
		s.log.Warn("program failed after its result", "exit", exit)
	default:
		s.log.Warn("program ended without a result", "exit", exit, "cause", end)
	}
}

// isOutcome reports whether the program ended the turn.
func isOutcome(end error) bool {
	var o *outcome
	return errors.As(end, &o)
}

// outcome is how the program ended the turn. It wraps the error for the handler to return.
type outcome struct{ error }

func (o *outcome) Unwrap() error { return o.error }

// reason returns the reason of a cancellation for the program.
func reason(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, holdfast.ErrCanceled):
		return "canceled"
	case errors.Is(cause, holdfast.ErrStopping), errors.Is(cause, holdfast.ErrLeaseLost):
		return "stopping"
	}
	return "timeout"
}

// endWithoutOutcome returns the result of a turn after its program exited without ending the
// turn.
func (s *session) endWithoutOutcome() error {
	err := s.p.exitError()
	switch {
	case err == nil && s.openStep == "":
		return nil
	case err == nil:
		err = errors.New("exited")
	}
	text := fmt.Sprintf("the program %s %s without a result", s.a.name, err)
	if s.openStep != "" {
		text += " within step " + a2a.Quote(s.openStep)
	}
	if last := printable(s.errors.last); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// handleOutput handles the program's output. It returns an error if the turn ends, or the result
// of the open step when the program sends it.
func (s *session) handleOutput() (json.RawMessage, error) {
	for {
		select {
		case c, ok := <-s.out.chunks:
			if !ok {
				return nil, errNoOutcome
			}
			result, done, err := s.handleChunk(c)
			if err != nil || done {
				return result, err
			}
		case arrived := <-s.inbox.arrived:
			if err := s.sendReceived(arrived); err != nil {
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

// handleChunk handles a chunk of the output. done reports whether the chunk completes the open step.
func (s *session) handleChunk(c chunk) (result json.RawMessage, done bool, err error) {
	if s.a.cfg.Plain {
		_, err := s.t.OpenArtifact("output").Write(c.data)
		return nil, false, err
	}
	if c.long {
		return nil, false, violationf(c.line, "is longer than the limit of %d bytes: %s", s.a.cfg.MaxLine, quoted(c.data))
	}
	m, err := parse(c.line, c.data)
	if err != nil {
		return nil, false, err
	}
	if m.Type == "step_done" {
		if s.openStep == "" || m.Name != s.openStep {
			return nil, false, violationf(c.line, "ends step %s, which is not open", a2a.Quote(m.Name))
		}
		return m.Result, true, nil
	}
	return nil, false, s.handleLine(c.line, m)
}

// send queues a line for the program. It does not report that the program has exited: the end
// of its output does.
func (s *session) send(message any) error {
	data, err := encode(message)
	if err != nil {
		return fmt.Errorf("encode line for program: %w", err)
	}
	return s.enqueue(line{data: data})
}

// sendContent is like send for a line with messages of the client. It reserves memory until
// the line is written.
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

// sendReceived sends the messages that the inbox has received.
func (s *session) sendReceived(arrived received) error {
	s.inbox.close()
	if arrived.err != nil {
		return arrived.err
	}
	return s.sendContent(newMessageLine(s.t, arrived.messages), arrived.messages)
}

// received is the result of waiting for messages.
type received struct {
	messages []a2a.Message
	err      error
}

// inbox waits for messages for the program. The zero value is ready to use.
type inbox struct {
	arrived chan received // nil unless waiting
	cancel  context.CancelFunc
}

// wait starts to wait, unless it already does.
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

// close ends a wait after its result has been received.
func (in *inbox) close() {
	in.cancel()
	in.arrived = nil
}

// stop cancels a wait and returns when its goroutine has ended.
func (in *inbox) stop() {
	if in.arrived == nil {
		return
	}
	in.cancel()
	<-in.arrived
	in.arrived = nil
}

// progress limits the rate of a program's status updates, because each is a stored event. A
// program may send statusBurst at once and statusRate per second. Beyond that, the newest
// update replaces the pending one.
type progress struct {
	credit     float64   // number of events that may be sent now
	creditTime time.Time // when credit was computed
	pending    string    // pending status, "" if none
	timer      *time.Timer
}

const (
	statusBurst = 100
	statusRate  = 20 // a second
)

func (p *progress) report(t *holdfast.Turn, text string) error {
	p.addCredit()
	if p.credit >= 1 {
		p.credit--
		p.pending = ""
		return t.Status(text)
	}
	if p.pending = text; p.timer == nil {
		p.timer = time.NewTimer(time.Second / statusRate)
	}
	return nil
}

// addCredit adds the credit for the elapsed time.
func (p *progress) addCredit() {
	now := time.Now()
	if p.creditTime.IsZero() {
		p.credit = statusBurst
	} else {
		p.credit = min(statusBurst, p.credit+statusRate*now.Sub(p.creditTime).Seconds())
	}
	p.creditTime = now
}

// waitForCredit waits until an event that must not be dropped may be stored.
func (p *progress) waitForCredit(ctx context.Context) error {
	for p.addCredit(); p.credit < 1; p.addCredit() {
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

// due returns a channel that is ready when the pending status may be sent.
func (p *progress) due() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

func (p *progress) flush(t *holdfast.Turn) error {
	p.stop()
	if p.pending == "" {
		return nil
	}
	return p.report(t, p.pending)
}

func (p *progress) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
