//go:build services

package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
)

var testKey = history.Key{Owner: "owner", Agent: "agent", Session: "session"}

func text(s string) []history.Message {
	return []history.Message{{Role: "user", Body: fmt.Appendf(nil, "%q", s)}}
}

// all returns the bodies of a session.
func all(t *testing.T, p history.Provider, k history.Key) (bodies []string) {
	t.Helper()
	messages, err := p.Messages(bg, k, 0, 0)
	if err != nil {
		t.Fatalf("Messages() = %v", err)
	}
	for i, m := range messages {
		if m.Seq != int64(i+1) {
			t.Fatalf("message %d of %v has sequence %d", i+1, k, m.Seq)
		}
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

// A server with appendfsync always is killed while 16 callers append and patch. Afterwards it has
// all that was acknowledged, nothing twice, and no part of an append.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	const callers, size = 16, 3
	srv := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, Config{URL: srv.url(), Timeout: 2 * time.Second})
	states, err := s.ShortTerm(memory.ShortTermConfig{})
	must(t, err)
	p := s.History()
	var wg sync.WaitGroup
	var failed atomic.Int64
	acknowledged := make([][]string, callers)
	patched := make([]int, callers)
	stop := make(chan struct{})
	ctx, cancel := context.WithTimeout(bg, await.Limit)
	defer cancel()
	fail := func(call string, err error) {
		failed.Add(1)
		if a2a.CodeOf(err) != a2a.CodeUnavailable || ctx.Err() != nil {
			t.Errorf("%s = %v, context %v, want an error with code unavailable before the context ends", call, err, ctx.Err())
		}
	}
	for i := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				k := history.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(i % 4)}
				name := fmt.Sprintf("%d-%d", i, n)
				if _, err := p.Append(ctx, k, history.AppendParams{Messages: append(append(text(name), text(name)...), text(name)...), Run: "r"}); err != nil {
					fail("Append()", err)
				} else {
					acknowledged[i] = append(acknowledged[i], fmt.Sprintf("%q", name))
				}
				if _, err := states.Update(ctx, memory.Key{Owner: "owner", Agent: "agent", Session: "state"}, map[string]any{fmt.Sprint(i): n}, memory.AnyVersion); err != nil {
					fail("Update()", err)
				} else {
					patched[i] = n
				}
			}
		})
	}
	for round := range 3 {
		time.Sleep(300 * time.Millisecond)
		srv.kill()
		if round == 1 {
			time.Sleep(3 * time.Second) // longer than the timeout of calls
		}
		srv.start()
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	wg.Wait()
	if failed.Load() == 0 {
		t.Error("no call failed while the server was down for 3 s")
	}
	found := make(map[string]int)
	for session := range 4 {
		bodies := all(t, p, history.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(session)})
		for i := 0; i < len(bodies); i += size {
			if i+size > len(bodies) || bodies[i] != bodies[i+1] || bodies[i] != bodies[i+2] {
				t.Fatalf("session %d has a part of an append at message %d", session, i+1)
			}
			found[bodies[i]]++
		}
	}
	total := 0
	for i, names := range acknowledged {
		total += len(names)
		for _, name := range names {
			if found[name] != 1 {
				t.Errorf("append %s of caller %d is stored %d times, want once", name, i, found[name])
			}
		}
	}
	for name, n := range found {
		if n != 1 {
			t.Errorf("append %s is stored %d times", name, n)
		}
	}
	st, err := states.Get(bg, memory.Key{Owner: "owner", Agent: "agent", Session: "state"})
	must(t, err)
	for i, n := range patched {
		if got, _ := st.Values[fmt.Sprint(i)].(float64); int(got) < n {
			t.Errorf("state of caller %d = %v, want at least %d", i, got, n)
		}
	}
	t.Logf("%d appends were acknowledged, %d stored, %d calls failed", total, len(found), failed.Load())
}

// Calls to a server that does not answer end by their timeout, or with their context, and the server
// executes them when it continues: an append that succeeded on a retry is stored once.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := open(t, Config{URL: srv.url(), Timeout: time.Second, Prefix: "stopped:"})
	slow := open(t, Config{URL: srv.url(), Timeout: 10 * time.Second, Prefix: "stopped:"})
	patient := open(t, Config{URL: srv.url(), Timeout: 4 * await.Limit})
	p := s.History()
	_, err := p.Append(bg, testKey, history.AppendParams{Messages: text("first")})
	must(t, err)
	srv.signal(syscall.SIGSTOP)
	began := time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := p.Page(bg, testKey, history.Tail(1)); a2a.CodeOf(err) != a2a.CodeUnavailable {
				t.Errorf("Page() of a stopped server = %v, want an error with code unavailable", err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
	defer cancel()
	if _, err := patient.History().Count(ctx, testKey); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Count() with a deadline of 100ms = %v, want the error of its context", err)
	}
	if err := s.Ping(bg); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Ping() of a stopped server = %v, want an error with code unavailable", err)
	}
	wg.Wait()
	if took := time.Since(began); took > await.Limit/2 {
		t.Errorf("calls to a stopped server took %v, want about 1s", took)
	}
	time.AfterFunc(6*time.Second, func() { srv.signal(syscall.SIGCONT) }) // after the first attempt, which ends after 5 s
	r, err := slow.History().Append(bg, testKey, history.AppendParams{Messages: text("second")})
	if want := (history.AppendResult{First: 2, Last: 2}); err != nil || r != want {
		t.Errorf("Append() = %+v, %v, want %+v", r, err, want)
	}
	time.Sleep(100 * time.Millisecond) // for attempts that the server has received and not executed yet
	if got := strings.Join(all(t, p, testKey), " "); got != `"first" "second"` {
		t.Errorf("messages = %s, want each once", got)
	}
	must(t, s.Ping(bg))
}

// lossy forwards connections to a server. While it loses answers, it closes a connection as soon as
// the server answers.
type lossy struct {
	net.Listener
	loses atomic.Int64 // number of answers to lose
}

func startLossy(t *testing.T, addr string) *lossy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &lossy{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", addr)
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go p.answer(from, to)
		}
	}()
	return p
}

func (p *lossy) answer(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := to.Read(buf)
		if err != nil {
			return
		}
		if p.loses.Load() > 0 && p.loses.Add(-1) >= 0 {
			return
		}
		if _, err := from.Write(buf[:n]); err != nil {
			return
		}
	}
}

// If the answer to a change is lost, the change is sent again, has one effect, and returns the
// result of the first attempt.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	proxy := startLossy(t, startServer(t).addr())
	s := open(t, Config{URL: "redis://" + proxy.Addr().String()})
	h := s.history
	states, err := s.ShortTerm(memory.ShortTermConfig{TTL: time.Hour})
	must(t, err)
	k := memory.Key{Owner: "owner", Agent: "agent", Session: "session"}
	to := testKey
	to.Session = "fork"
	lose := func(call string, f func() (any, error), want any) {
		t.Helper()
		proxy.loses.Store(1)
		got, err := f()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || proxy.loses.Load() > 0 {
			t.Errorf("%s with a lost answer = %v, %v, want %v", call, got, err, want)
		}
	}
	params := history.AppendParams{Messages: append(text("a"), text("b")...), Run: "r", Fence: 2, TTL: time.Hour}
	_, err = h.Append(bg, testKey, params) // writes the index
	must(t, err)
	must(t, h.index(bg, to, h.now()))
	lose("Append()", func() (any, error) { return h.Append(bg, testKey, params) }, history.AppendResult{First: 3, Last: 4})
	params.IdempotencyKey = "key"
	lose("Append()", func() (any, error) { return h.Append(bg, testKey, params) }, history.AppendResult{First: 5, Last: 6})
	lose("Append()", func() (any, error) { return h.Append(bg, testKey, params) }, history.AppendResult{First: 5, Last: 6, Repeated: true})
	lose("Rewind()", func() (any, error) { return h.Rewind(bg, testKey, 4) }, 2)
	lose("Append()", func() (any, error) { return h.Append(bg, testKey, params) }, history.AppendResult{First: 7, Last: 8})
	lose("Prune()", func() (any, error) { return h.Prune(bg, testKey, history.Policy{MaxMessages: 3}) }, history.Pruned{Messages: 3, Bytes: 9})
	lose("Fork()", func() (any, error) { return h.Fork(bg, history.ForkParams{From: testKey, To: to}) }, 3)
	restored := testKey
	restored.Session = "restored"
	must(t, h.index(bg, restored, h.now()))
	lose("Restore()", func() (any, error) {
		at := fromMillis(h.now())
		message := history.Message{Seq: 5, CreatedAt: at, Body: []byte(`"a"`)}
		return nil, h.Restore(bg, history.Session{Key: restored, CreatedAt: at, UpdatedAt: at}, []history.Message{message})
	}, nil)
	lose("Set()", func() (any, error) { st, err := states.Set(bg, k, map[string]any{"n": 1}, 0); return st.Version, err }, 1)
	lose("Update()", func() (any, error) {
		st, err := states.Update(bg, k, map[string]any{"m": 1}, 1)
		return st.Version, err
	}, 2)
	lose("Clear()", func() (any, error) { return nil, states.Clear(bg, k) }, nil)
	lose("ClearRun()", func() (any, error) { return h.ClearRun(bg, testKey, "r", 2) }, 3)
	lose("Clear()", func() (any, error) { return nil, h.Clear(bg, testKey) }, nil)
	lose("Append()", func() (any, error) { return h.Append(bg, testKey, params) }, history.AppendResult{First: 1, Last: 2})
}

// A change that the server executes late, after its repetition and later changes, has no effect.
func TestLateChanges(t *testing.T) {
	t.Parallel()
	s := open(t, Config{URL: startServer(t).url()})
	h := s.history
	late := func(number int64, sc *script, args ...any) {
		t.Helper()
		keys := h.sessionKeys(testKey)
		cmd := append(command{"evalsha", sc, 2, keys[0], keys[1], s.id, number, 1}, args...)
		_, err := s.client.run(bg, keys[0], func(int) []command { return []command{append(command(nil), cmd...)} })
		must(t, err)
	}
	want := func(bodies string) {
		t.Helper()
		if got := strings.Join(all(t, h, testKey), " "); got != bodies {
			t.Errorf("messages = %s, want %s", got, bodies)
		}
	}
	must(t, h.Clear(bg, testKey))
	cleared := s.numbers.Load()
	_, err := h.Append(bg, testKey, history.AppendParams{Messages: text("a"), Run: "r"})
	must(t, err)
	appended := s.numbers.Load()
	late(cleared, scriptClear, h.now(), grace.Milliseconds())
	want(`"a"`)
	_, err = h.ClearRun(bg, testKey, "x", 0)
	must(t, err)
	removed := s.numbers.Load()
	late(appended, scriptAppend, appendArgs(&history.AppendParams{Messages: text("a"), Run: "r"}, h.now())...)
	want(`"a"`)
	_, err = h.Append(bg, testKey, history.AppendParams{Messages: text("b"), Run: "x"})
	must(t, err)
	late(removed, scriptRemove, h.now(), grace.Milliseconds(), "run", "x", fenceText(0), "")
	want(`"a" "b"`)
	late(appended, scriptClear, h.now(), grace.Milliseconds())
	want(`"a" "b"`)
}

// A session keeps the results of the stores that changed it last.
func TestManyStores(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for i := range 20 {
		s := open(t, Config{URL: srv.url(), Prefix: "many:"})
		for range 2 {
			_, err := s.History().Append(bg, testKey, history.AppendParams{Messages: text(fmt.Sprint(i))})
			must(t, err)
		}
		must(t, s.Close())
	}
	fields, err := srv.client(t).HKeys(bg, "many:h:{owner/agent/session}").Result()
	must(t, err)
	clients := 0
	for _, field := range fields {
		if strings.HasPrefix(field, "c:") {
			clients++
		}
	}
	if clients != 16 || len(all(t, open(t, Config{URL: srv.url(), Prefix: "many:"}).History(), testKey)) != 40 {
		t.Errorf("the session has the results of %d stores, want 16, and 40 messages", clients)
	}
}

// The server removes the keys of a session and of a state some time after they expire, and those
// without a TTL never.
func TestServerRemovesExpiredKeys(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s, c := open(t, Config{URL: srv.url()}), srv.client(t)
	keys := s.history.sessionKeys(testKey)
	check := func(call string, want time.Duration, keys ...string) {
		t.Helper()
		for _, key := range keys {
			got := c.PTTL(bg, key).Val()
			if want == 0 && got != -1 || want > 0 && (got > want || got < want-time.Minute) {
				t.Errorf("%s: key %s is removed in %v, want %v", call, key, got, want)
			}
		}
	}
	add := func(ttl time.Duration) {
		t.Helper()
		_, err := s.history.Append(bg, testKey, history.AppendParams{Messages: text("a"), TTL: ttl, Run: "r"})
		must(t, err)
	}
	add(0)
	check("without TTL", 0, keys...)
	add(time.Hour)
	check("TTL", time.Hour+grace, keys...)
	_, err := s.history.ClearRun(bg, testKey, "r", 0)
	must(t, err)
	add(0)
	check("TTL, after the last message was removed", time.Hour+grace, keys...)
	add(2 * time.Hour)
	check("longer TTL", 2*time.Hour+grace, keys...)
	to := testKey
	to.Session = "fork"
	for _, ttl := range []time.Duration{0, time.Hour} {
		_, err = s.history.Fork(bg, history.ForkParams{From: testKey, To: to, TTL: ttl})
		must(t, err)
		want := ttl
		if ttl > 0 {
			want += grace
		}
		check("fork", want, s.history.sessionKeys(to)...)
		must(t, s.history.Clear(bg, to))
		check("cleared", grace, s.history.sessionKeys(to)[0])
	}
	add(history.NoTTL)
	check("TTL removed", 0, keys...)

	k := memory.Key{Owner: "owner", Agent: "agent", Session: "session"}
	for _, ttl := range []time.Duration{time.Hour, 0} {
		states, err := s.ShortTerm(memory.ShortTermConfig{TTL: ttl})
		must(t, err)
		_, err = states.SetOnce(bg, k, nil, memory.AnyVersion, fmt.Sprint(ttl))
		must(t, err)
		rk, err := k.RecordKey()
		must(t, err)
		key := (&stateRecords{s: s}).key(rk)
		want := ttl
		if ttl > 0 {
			want += stateGrace
		}
		check("state", want, key)
		check("idempotency key", onceAge, key+":o:"+fmt.Sprint(ttl))
		if ttl == 0 {
			must(t, states.Clear(bg, k))
			check("cleared state", stateGrace, key)
		}
	}
}

// A server without free memory rejects changes, serves reads, and recovers.
func TestFullServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := open(t, Config{URL: srv.url()})
	p := s.History()
	states, err := s.ShortTerm(memory.ShortTermConfig{})
	must(t, err)
	k := memory.Key{Owner: "owner", Agent: "agent", Session: "session"}
	_, err = p.Append(bg, testKey, history.AppendParams{Messages: text("a"), Run: "r"})
	must(t, err)
	c := srv.client(t)
	must(t, c.ConfigSet(bg, "maxmemory", "1").Err())
	if _, err := p.Append(bg, testKey, history.AppendParams{Messages: text("b")}); a2a.CodeOf(err) != a2a.CodeExhausted {
		t.Errorf("Append() to a full server = %v, want an error with code exhausted", err)
	}
	if _, err := states.Set(bg, k, map[string]any{"a": 1}, memory.AnyVersion); a2a.CodeOf(err) != a2a.CodeExhausted {
		t.Errorf("Set() on a full server = %v, want an error with code exhausted", err)
	}
	if got := strings.Join(all(t, p, testKey), " "); got != `"a"` {
		t.Errorf("messages = %s, want the first", got)
	}
	if n, err := p.ClearRun(bg, testKey, "r", 0); n != 1 || err != nil {
		t.Errorf("ClearRun() on a full server = %d, %v, want 1", n, err)
	}
	must(t, c.ConfigSet(bg, "maxmemory", "0").Err())
	r, err := p.Append(bg, testKey, history.AppendParams{Messages: text("b")})
	if want := (history.AppendResult{First: 2, Last: 2}); err != nil || r != want {
		t.Errorf("Append() = %+v, %v, want %+v", r, err, want)
	}
}

// processVariable makes the test binary append as another process, to the server that it names.
const processVariable = "HOLDFAST_REDIS_TEST_PROCESS"

// TestTwoProcesses appends and patches from two processes at once.
func TestTwoProcesses(t *testing.T) {
	const each = 200
	url := os.Getenv(processVariable)
	child := url != ""
	if !child {
		url = startServer(t).url()
	}
	s := open(t, Config{URL: url, Prefix: "processes:"})
	states, err := s.ShortTerm(memory.ShortTermConfig{})
	must(t, err)
	k := memory.Key{Owner: "owner", Agent: "agent", Session: "session"}
	work := func(name string) {
		for i := range each {
			_, err := s.History().Append(bg, testKey, history.AppendParams{Messages: text(fmt.Sprint(name, i)), IdempotencyKey: fmt.Sprint(name, i)})
			must(t, err)
			_, err = states.Update(bg, k, map[string]any{fmt.Sprint(name, i): i}, memory.AnyVersion)
			must(t, err)
		}
	}
	if child {
		work("child")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTwoProcesses$")
	cmd.Env = append(os.Environ(), processVariable+"="+url)
	done := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		done <- err
	}()
	work("parent")
	must(t, <-done)
	found := make(map[string]bool)
	for _, body := range all(t, s.History(), testKey) {
		found[body] = true
	}
	st, err := states.Get(bg, k)
	must(t, err)
	if len(found) != 2*each || len(st.Values) != 2*each || st.Version != 2*each {
		t.Errorf("found %d messages and %d members at version %d, want %d", len(found), len(st.Values), st.Version, 2*each)
	}
}
