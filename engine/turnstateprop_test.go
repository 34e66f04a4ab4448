package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// TestStateEqualsUninterruptedRun runs random handlers that read and change the state, boards,
// transcript, facts and blobs of their session. Their processes are killed or stopped at random
// commits, responses of the store are lost, and attempts are repeated. The result must equal the
// result of the same handlers without interruption. In some runs, transcripts, facts and blobs
// are in another store than the agent's.
func TestStateEqualsUninterruptedRun(t *testing.T) {
	t.Parallel()
	runs := map[string]int{"memory": 250, "sqlite": 40, "postgres": 15}
	onAllStores(t, func(t *testing.T, name string, s store.Store) {
		foreign := openForeign(t)
		for seed := range testseed.Each(t, runs[name]) {
			checkStateSeed(t, s, foreign, seed)
		}
	})
}

func checkStateSeed(t *testing.T, s, foreign store.Store, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	h := newStateScript(r, vectorsOf(s) != nil)
	plain := &stateScript{turns: h.turns, id: h.id, contextID: h.contextID}
	if seed%4 == 0 {
		h.foreign, plain.foreign = foreign.(contractParts), foreign.(contractParts)
	}
	got := h.execute(t, s, r)
	if plain.foreign != nil {
		plain.foreign = inmem.New()
	}
	want := plain.execute(t, inmem.New(), nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: state and boards (-without interruption +with):\n%s\nscript: %+v", seed, diff, h.turns)
	}
	if diff := cmp.Diff(plain.seen, h.seen); diff != "" {
		t.Errorf("seed %d: results that the handler got (-without interruption +with):\n%s", seed, diff)
	}
}

// stateOp is an operation of a handler. A "step" runs ops in a step; "retry" asks for another
// attempt until the turn has had n attempts.
type stateOp struct {
	kind string
	n    int
	id   int // unique in the script
	ops  []stateOp
}

// stateScript runs operations as the handler of one task with several turns.
type stateScript struct {
	turns         [][]stateOp
	id, contextID string

	mu       sync.Mutex
	attempts map[int]int
	faults   bool           // runs with interruptions
	foreign  contractParts  // stores transcripts, facts and blobs instead of the agent's store
	seen     map[int]string // what the final attempt of each turn got
}

func newStateScript(r *rand.Rand, documents bool) *stateScript {
	h := &stateScript{id: newID(), contextID: newID()}
	kinds := slices.Concat(contractKinds, graphKinds)
	if documents {
		kinds = slices.Concat(kinds, documentKinds)
	}
	ops := 0
	for range 1 + r.IntN(3) {
		h.turns = append(h.turns, stateOps(r, kinds, &ops, 2))
	}
	return h
}

func stateOps(r *rand.Rand, contractKinds []string, made *int, depth int) (ops []stateOp) {
	kinds := []string{
		"get", "update", "update", "update", "remove", "set", "clear", "replace", "create", "add", "add", "move", "move", "move", "retryTask",
		"force", "note", "deleteTask", "reorder", "root", "list", "deleteBoard", "flush", "status", "pause", "step", "step", "retry",
	}
	if r.IntN(2) == 0 {
		kinds = append(slices.Clone(contractKinds), "update", "get", "flush", "status", "pause", "step", "step", "retry")
	}
	for range 1 + r.IntN(10) {
		*made++
		o := stateOp{kind: kinds[r.IntN(len(kinds))], n: r.IntN(100), id: *made}
		if o.kind == "step" && depth > 0 {
			o.ops = stateOps(r, contractKinds, made, depth-1)
		}
		ops = append(ops, o)
	}
	return ops
}

func (h *stateScript) handle(ctx context.Context, turn *engine.Turn) error {
	h.mu.Lock()
	if h.attempts == nil {
		h.attempts, h.seen = make(map[int]int), make(map[int]string)
	}
	h.attempts[turn.Number()]++
	a := &stateAttempt{h: h, turn: turn, attempt: h.attempts[turn.Number()]}
	h.mu.Unlock()
	err := a.run(ctx, h.turns[turn.Number()-1])
	if a2a.CodeOf(err) == a2a.CodeUnavailable {
		return engine.Retry(err)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.seen[turn.Number()] = strings.Join(a.seen, "\n")
	h.mu.Unlock()
	if turn.Number() < len(h.turns) {
		return turn.RequireInput()
	}
	return turn.Reply()
}

type stateAttempt struct {
	h       *stateScript
	turn    *engine.Turn
	attempt int
	seen    []string
	refs    []string // of blobs
}

var errAgain = errors.New("again")

func (a *stateAttempt) run(ctx context.Context, ops []stateOp) error {
	for _, o := range ops {
		var err error
		switch o.kind {
		case "flush":
			err = a.turn.Flush()
		case "status":
			err = a.turn.Status("working")
		case "pause":
			time.Sleep(time.Duration(o.n%3) * time.Millisecond) // lets the timer commit
		case "retry":
			if a.attempt <= o.n%3 && a.h.interrupted() {
				return engine.Retry(errAgain)
			}
		case "step":
			var raw []byte
			raw, err = a.turn.Step(ctx, "s", func(ctx context.Context) ([]byte, error) {
				before, refs := len(a.seen), len(a.refs)
				if err := a.run(ctx, o.ops); err != nil {
					return nil, err
				}
				a.refs = a.refs[:refs] // a later attempt does not get them
				result := strings.Join(a.seen[before:], "\n")
				a.seen = a.seen[:before]
				return []byte(result), nil
			})
			a.seen = append(a.seen, string(raw))
		default:
			err = a.change(ctx, &o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// interrupted reports whether the script runs with interruptions.
func (h *stateScript) interrupted() bool { return h.faults }

// change runs an operation on the state or a board. Its arguments depend on what the handler has
// read before, its result is added to seen.
func (a *stateAttempt) change(ctx context.Context, o *stateOp) error {
	st, b := states.For(a.turn.Contracts()), boards.For(a.turn.Contracts())
	member := string(rune('a' + o.n%4))
	var result any
	var err error
	switch o.kind {
	case "get":
		got, e := st.Get(ctx)
		result, err = got.Values, e
	case "update":
		err = st.Update(ctx, map[string]any{member: map[string]any{strconv.Itoa(o.n % 3): len(a.seen)}, "last": lastOf(a.seen)})
	case "remove":
		err = st.Update(ctx, map[string]any{member: nil})
	case "set":
		err = st.Set(ctx, map[string]any{"set": lastOf(a.seen)})
	case "clear":
		err = st.Clear(ctx)
	case "replace":
		got, e := st.Get(ctx)
		if err = e; err == nil {
			got, err = st.Replace(ctx, map[string]any{"replaced": o.n}, got.Version)
			result = got.Values
		}
	default:
		if slices.Contains(contractKinds, o.kind) || slices.Contains(documentKinds, o.kind) || slices.Contains(graphKinds, o.kind) {
			result, err = a.onContract(ctx, o)
		} else {
			result, err = a.onBoard(ctx, o, b)
		}
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) && !errors.Is(err, board.ErrMove) && !errors.Is(err, board.ErrRetriesExhausted) && !errors.Is(err, board.ErrNotFound) {
		return err
	}
	a.seen = append(a.seen, fmt.Sprintf("%s: %s %v", o.kind, jsonText(result), err))
	return nil
}

func lastOf(seen []string) string {
	if len(seen) == 0 {
		return ""
	}
	return fmt.Sprintf("%.40s", seen[len(seen)-1])
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// plainBoard returns a board without what depends on time and on the number of commits.
func plainBoard(b board.Board) board.Board {
	b.ID, b.Version, b.CreatedAt = "", 0, time.Time{}
	return b
}

// byLabel orders boards by their label, which is unique. The order of their times is not the same
// in each run.
func byLabel(x, y board.Board) int { return strings.Compare(x.Label, y.Label) }

func plainBoards(all []board.Board) (plain []board.Board) {
	for _, b := range all {
		plain = append(plain, plainBoard(b))
	}
	slices.SortFunc(plain, byLabel)
	return plain
}

func (a *stateAttempt) onBoard(ctx context.Context, o *stateOp, b *boards.Boards) (any, error) {
	switch o.kind {
	case "create":
		created, err := b.Create(ctx, boards.Params{Label: fmt.Sprintf("%03d", o.id), MaxRetries: 1, ParentAgent: "parent"[:6*(o.n%2)]}, "one", "two")
		return plainBoard(created), err
	case "list":
		all, err := b.List(ctx)
		return plainBoards(all), err
	}
	all, err := b.List(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	slices.SortFunc(all, byLabel)
	root := all[o.n%len(all)]
	if o.kind == "root" {
		got, err := b.Get(ctx, root.ID)
		return plainBoard(got), err
	}
	if o.kind == "deleteBoard" {
		return nil, b.Delete(ctx, root.ID)
	}
	if o.kind == "add" {
		return b.AddTasks(ctx, root.ID, fmt.Sprint("t", o.n))
	}
	if len(root.Tasks) == 0 {
		return nil, nil
	}
	task := root.Tasks[o.n%len(root.Tasks)].ID
	statuses := []board.Status{board.InProgress, board.Failed, board.Succeeded, board.Blocked, board.Abandoned}
	switch o.kind {
	case "move":
		return b.SetStatus(ctx, root.ID, task, statuses[o.n%len(statuses)], "")
	case "retryTask":
		return b.IncrementRetry(ctx, root.ID, task)
	case "force":
		return b.ForceRetry(ctx, root.ID, task)
	case "note":
		return b.SetNote(ctx, root.ID, task, lastOf(a.seen))
	case "deleteTask":
		return nil, b.DeleteTask(ctx, root.ID, task)
	}
	var ids []string
	for _, t := range slices.Backward(root.Tasks) {
		ids = append(ids, t.ID)
	}
	reordered, err := b.Reorder(ctx, root.ID, ids)
	return plainBoard(reordered), err
}

// execute sends a message for each turn and returns the state and the boards after the last one.
// Processes are interrupted at random, chosen by r.
func (h *stateScript) execute(t *testing.T, s store.Store, r *rand.Rand) any {
	t.Helper()
	h.faults = r != nil
	key := store.Key{Owner: alice.ID, ID: h.id}
	kills := 0
	if r != nil {
		kills = r.IntN(5)
	}
	var proc *process
	var e *engine.Engine
	next := func() {
		if e != nil {
			stop(t, e)
		}
		killAt, flush, inner := 0, time.Hour, s
		if r != nil {
			flush = []time.Duration{time.Hour, time.Millisecond}[r.IntN(2)]
			inner = storetest.Faulty(s, leaseFaults(r.Uint64()))
		}
		if kills > 0 {
			kills--
			killAt = 1 + r.IntN(8)
		}
		proc = newProcess(inner, killAt, r != nil && r.IntN(2) == 0)
		proc.documents = vectorsOf(s)
		contracts := engine.Contracts{Embedder: letters{}}
		if h.foreign != nil && r != nil {
			contracts = newForeignStore(h.foreign, proc, r.Uint64()).contracts()
		}
		e = start(t, engine.Config{
			Store: proc, Contracts: contracts, Handler: h.handle, Turns: engine.Turns{
				FlushInterval: flush, HandlerGrace: time.Minute, MaxAttempts: 1000,
				RetryDelay: time.Millisecond, RetryDelayMax: time.Millisecond, Poll: 2 * time.Millisecond,
			},
		})
	}
	next()
	defer func() { stop(t, e) }()
	run := &scriptRun{id: h.id}
	for turn := range h.turns {
		m := message("go")
		m.Message.TaskID = h.id
		if turn == 0 {
			m.Message.ContextID = h.contextID
		}
		for {
			_, err := e.Send(t.Context(), alice, m, engine.SendOptions{})
			if err == nil {
				break
			}
			if !proc.isKilled() && a2a.CodeOf(err) != a2a.CodeUnavailable {
				t.Fatalf("Send() = %v", err)
			}
			next()
		}
		for !run.turnEnded(t, s, key, turn) {
			if r != nil && r.IntN(4) == 0 {
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
				next() // stops the process, which requeues the task
				continue
			}
			run.waitForEnd(t, e, proc)
			if proc.isKilled() {
				next()
			}
		}
	}
	boards := plainBoards(boardsOf(t, s, h.contextID))
	task, err := s.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]any{"state": sessionState(t, s, h.contextID), "boards": boards, "task": string(task.Status.State)}
	parts := s.(contractParts)
	if h.foreign != nil && r != nil {
		parts = h.foreign
	}
	maps.Copy(result, contractData(t, parts, h.contextID))
	return result
}

// leaseFaults loses commits under a lease, responses to them, and reads of records.
func leaseFaults(seed uint64) storetest.Plan {
	random := storetest.FailRandomly(seed, 0.04)
	return func(c storetest.Call) storetest.Fault {
		switch {
		case c.Method == "Commit" && len(c.Changes) == 1 && c.Changes[0].Lease != nil, c.Method == "Record", c.Method == "Records":
			return random(c)
		}
		return storetest.Pass
	}
}
