package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pageSize    = 20
	maxBody     = 256 << 20 // maximum size of a response in memory
	firstPoll   = time.Millisecond
	longestPoll = 32 * time.Millisecond
)

var getPathBytes = []byte(getPath)

var errTooLarge = errors.New("answer is too large")

// worker is one closed loop with its connection, buffers and counts.
type worker struct {
	run    *run
	number int
	wire   transport
	ids    ids

	send    template // of Send, SendGet, Stream and Echo, and to create tasks
	list    template
	lists   []template // of Contexts, used in turn
	get     []byte     // reused for each tasks/get
	body    []byte     // of the last response
	collect func([]byte) error
	answer  answer
	task    []byte // of SendGet: id of the task in progress
	turn    int    // next index: of run.tasks for Get, of lists for Contexts
	events  events
	stream  func([]byte) error
	timer   *time.Timer

	tally tally
}

func newWorker(r *run, number int) *worker {
	w := &worker{
		run:    r,
		number: number,
		ids:    newIDs(r.series, number),
		send:   r.send.clone(),
		list:   r.list.clone(),
		turn:   number * 7919, // so that workers start with different tasks
	}
	if r.cfg.Binding == GRPC10 {
		w.wire = newGRPCWire(r.shared[number%len(r.shared)])
	} else {
		w.wire = &wire{url: r.url, timeout: r.cfg.Timeout, clock: &r.clock}
	}
	for _, t := range r.contexts {
		w.lists = append(w.lists, t.clone())
	}
	w.collect = func(piece []byte) error {
		if len(w.body)+len(piece) > maxBody {
			return errTooLarge
		}
		w.body = append(w.body, piece...)
		return nil
	}
	w.stream = w.events.feed
	w.events.binding = r.cfg.Binding
	return w
}

// once makes one request of the scenario.
func (w *worker) once(ctx context.Context) error {
	switch w.run.cfg.Scenario {
	case Send:
		return w.onceSend(ctx)
	case SendGet:
		return w.onceSendGet(ctx)
	case Stream:
		return w.onceStream(ctx)
	case Get:
		return w.onceGet(ctx)
	case List:
		return w.onceList(ctx)
	case Contexts:
		return w.onceContexts(ctx)
	case Echo:
		return w.onceEcho(ctx)
	}
	return fmt.Errorf("unknown scenario %q", w.run.cfg.Scenario)
}

func (w *worker) onceSend(ctx context.Context) error {
	id := w.ids.next()
	if err := w.exchange(ctx, w.send.patch(id), id); err != nil {
		return err
	}
	if err := w.answer.isTask(); err != nil {
		return err
	}
	return w.answer.completed()
}

func (w *worker) onceSendGet(ctx context.Context) error {
	id := w.ids.next()
	if err := w.exchange(ctx, w.send.patch(id), id); err != nil {
		return err
	}
	if err := w.answer.isTask(); err != nil {
		return err
	}
	w.task = append(w.task[:0], w.answer.task...)
	until := w.run.clock.now() + w.run.cfg.Timeout
	for pause := firstPoll; ; pause = min(2*pause, longestPoll) {
		if err := w.readTask(ctx, w.task); err != nil {
			return err
		}
		if terminal(w.answer.state) {
			return w.answer.completed()
		}
		if w.run.clock.now() > until {
			return errors.New("task does not end within the timeout")
		}
		if err := w.pause(ctx, pause); err != nil {
			return err
		}
	}
}

func (w *worker) onceStream(ctx context.Context) error {
	id := w.ids.next()
	w.events.reset(id)
	w.body = w.body[:0]
	status, err := w.wire.call(ctx, w.send.patch(id), w.stream)
	if err != nil {
		return err
	}
	if status != 200 {
		return fmt.Errorf("HTTP status %d", status)
	}
	w.tally.events += w.events.n
	return w.events.end()
}

func (w *worker) onceGet(ctx context.Context) error {
	tasks := w.run.tasks
	w.turn++
	if err := w.readTask(ctx, tasks[w.turn%len(tasks)]); err != nil {
		return err
	}
	return w.answer.completed()
}

func (w *worker) onceList(ctx context.Context) error {
	id := w.ids.next()
	if err := w.exchange(ctx, w.list.patch(id), id); err != nil {
		return err
	}
	if a := &w.answer; a.list != inResult && a.list != inTasks || a.items < 1 || a.items > pageSize {
		return fmt.Errorf("list has %d tasks, want 1 to %d", a.items, pageSize)
	}
	return nil
}

func (w *worker) onceContexts(ctx context.Context) error {
	id := w.ids.next()
	w.turn++
	if err := w.exchange(ctx, w.lists[w.turn%len(w.lists)].patch(id), id); err != nil {
		return err
	}
	if a := &w.answer; a.list != inContexts || a.items < 1 || a.items > pageSize {
		return fmt.Errorf("list has %d contexts, want 1 to %d", a.items, pageSize)
	}
	return nil
}

// makeContext creates a context that all lists of Contexts include.
func (w *worker) makeContext(ctx context.Context) error {
	id := w.ids.next()
	t := w.run.context.clone() // too rare to keep a copy
	if err := w.exchange(ctx, t.patch(id), id); err != nil {
		return err
	}
	if string(w.answer.kind) != "context" {
		return fmt.Errorf("result is of kind %q, want context", clip(w.answer.kind))
	}
	return nil
}

func (w *worker) onceEcho(ctx context.Context) error {
	id := w.ids.next()
	status, err := w.post(ctx, w.send.patch(id))
	switch {
	case err != nil:
		return err
	case status != 200:
		return fmt.Errorf("HTTP status %d", status)
	}
	if err := w.answer.scan(w.body, JSONRPC03); err != nil {
		return err
	}
	if string(w.answer.id) != string(id) || !w.answer.echo {
		return errors.New("answer is not an echo of the request")
	}
	return nil
}

// readTask reads a task into w.answer.
func (w *worker) readTask(ctx context.Context, task []byte) error {
	id := w.ids.next()
	w.get = w.run.appendGet(w.get[:0], id, task)
	if err := w.exchange(ctx, w.get, id); err != nil {
		return err
	}
	if err := w.answer.isTask(); err != nil {
		return err
	}
	if string(w.answer.task) != string(task) {
		return errors.New("answer is another task")
	}
	return nil
}

// exchange makes a call and scans the response, which must be a result.
func (w *worker) exchange(ctx context.Context, request, id []byte) error {
	status, err := w.post(ctx, request)
	if err != nil {
		return err
	}
	if w.run.cfg.Binding == GRPC10 {
		err = w.answer.scanProto(w.body, bytes.HasPrefix(request, getPathBytes))
	} else {
		err = w.answer.scan(w.body, w.run.cfg.Binding)
	}
	if status != 200 {
		if err == nil && w.answer.hasError {
			return fmt.Errorf("HTTP status %d, error %s: %s", status, w.answer.errorCode, clip(w.answer.errorText))
		}
		return fmt.Errorf("HTTP status %d", status)
	}
	if err != nil {
		return err
	}
	return w.answer.result(id)
}

func (w *worker) post(ctx context.Context, request []byte) (status int, err error) {
	w.body = w.body[:0]
	return w.wire.call(ctx, request, w.collect)
}

func (w *worker) pause(ctx context.Context, d time.Duration) error {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.timer.C:
		return nil
	case <-ctx.Done():
		w.timer.Stop()
		return ctx.Err()
	}
}
