//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// attack is a function of a hostile owner, which runs until the context of the attacker is done.
// prepare creates large tasks and other data for it.
type attack struct {
	name    string
	tasks   int
	prepare func(a *attacker) // nil: nothing
	run     func(a *attacker)
}

const mib = 1 << 20

var attacks = []attack{
	{"webhooks with the task", 3, setWebhooks, attackWebhooks},
	{"batches of large answers", 1, nil, attackBatches},
	{"readers that do not read", 3, nil, attackUnread},
	{"sends that wait", 0, nil, attackWaiting},
	{"files by URI", 0, nil, attackFiles},
	{"a long history", 1, nil, attackHistory},
	{"bodies that stall", 0, nil, attackStalled},
	{"streams", 0, startLongTask, attackStreams},
	{"a full queue", 0, nil, attackQueue},
}

// longAttacks run only if FAULTS_ATTACK or FAULTS_ATTACK_ONE is set: creating their tasks of 27
// MiB takes longer than the short attacks.
var longAttacks = []attack{
	{"streams from the first event", 3, growTasks, attackOldEvents},
	{"messages sent again", 3, growTasks, attackRepeats},
}

// documentAttacks make the agent compute.
var documentAttacks = []attack{
	{"documents", 0, nil, attackDocuments},
	{"documents by URI", 0, nil, attackDocumentsByURI},
	{"webhooks with the task", 2, setWebhooks, attackWebhooks},
}

// attackDocuments sends documents of 9 MB until they are accepted, one of them unless FAULTS_ATTACK is set.
func attackDocuments(a *attacker) {
	part, err := json.Marshal(map[string]string{"kind": "text", "text": prose(9 * mib)})
	if err != nil {
		panic(err)
	}
	a.documents(string(part), 2)
}

// attackDocumentsByURI sends messages with two or three documents of 9 MB by their URI.
func attackDocumentsByURI(a *attacker) {
	one := `{"kind":"file","file":{"mimeType":"text/plain","uri":"http://` + a.s.files + `/prose"}}`
	a.documents(one+","+one, 12)
}

// documents sends messages with the same parts until they are accepted: one, or most of them if FAULTS_ATTACK is set.
func (a *attacker) documents(parts string, most int) {
	if os.Getenv("FAULTS_ATTACK") == "" {
		most = 1
	}
	var group sync.WaitGroup
	for range most {
		group.Go(func() {
			for a.ctx.Err() == nil && a.s.p.running() {
				if status, answer := a.call(message1("", parts, false)); status == http.StatusOK && strings.Contains(string(answer), `"result"`) {
					return
				}
				a.pause(time.Second)
			}
		})
	}
	group.Wait()
}

// prose returns a text of sentences with words of different frequency.
func prose(bytes int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < bytes {
		b.WriteString("The")
		for range 6 + r.IntN(20) {
			b.WriteString(" w" + strconv.Itoa(int(20_000*math.Pow(r.Float64(), 4))) + string(rune('a'+r.IntN(26))))
		}
		b.WriteString(". ")
		if r.IntN(6) == 0 {
			b.WriteString("\n\n")
		}
	}
	return b.String()
}

// setWebhooks registers ten webhooks for each large task, in the format that sends the whole task
// with each event.
func setWebhooks(a *attacker) {
	a.s.mu.Lock()
	a.s.hooked = append(a.s.hooked, a)
	a.s.mu.Unlock()
	for _, id := range a.tasks {
		for range 10 {
			status, answer := a.call(request("tasks/pushNotificationConfig/set", map[string]any{
				"taskId": id, "pushNotificationConfig": map[string]any{"id": newID(), "url": "http://" + a.s.receiver + "/" + newID(), "payloadFormat": "task"},
			}))
			if status != http.StatusOK || strings.Contains(string(answer), `"error"`) {
				a.s.t.Errorf("a webhook before the attack: status %d, %.300s", status, answer)
			}
		}
	}
}

// attackWebhooks adds events to large tasks. The receiver of their webhooks is slow.
func attackWebhooks(a *attacker) {
	for a.pause(time.Second) {
		for _, id := range a.tasks {
			a.call(message1(id, `{"kind":"text","text":" "}`, false))
		}
	}
}

// attackBatches requests one large task fifty times in a batch, and reads the response slowly.
func attackBatches(a *attacker) {
	one := request("tasks/get", map[string]any{"id": a.tasks[0]})
	batch := "[" + strings.Repeat(one+",", 49) + one + "]"
	a.repeat(4, func() {
		conn := a.open("application/json", batch, len(batch))
		if conn == nil {
			return
		}
		defer conn.Close()
		for range 50 {
			if _, err := io.CopyN(io.Discard, conn, 64<<10); err != nil || !a.pause(100*time.Millisecond) {
				return
			}
		}
	})
}

// attackUnread requests large responses and streams, and does not read them.
func attackUnread(a *attacker) {
	var n atomic.Int64
	a.repeat(40, func() {
		i := int(n.Add(1))
		accept, method := "application/json", "tasks/get"
		if i%2 == 0 {
			accept, method = "text/event-stream", "tasks/resubscribe"
		}
		body := request(method, map[string]any{"id": a.tasks[i%len(a.tasks)]})
		if conn := a.open(accept, body, len(body)); conn != nil {
			a.pause(10 * time.Second)
			_ = conn.Close()
		}
	})
}

// growTasks adds messages of 9 MiB to the large tasks.
func growTasks(a *attacker) {
	for _, id := range a.tasks {
		for range 2 {
			if status, answer := a.call(message1(id, bulk(9*mib), true)); status != http.StatusOK || strings.Contains(string(answer), `"error"`) {
				a.s.t.Errorf("a message before the attack: status %d, %.300s", status, answer)
			}
		}
	}
}

// attackOldEvents requests all events of large tasks, and does not read them.
func attackOldEvents(a *attacker) {
	var n atomic.Int64
	a.repeat(20, func() {
		body := request("tasks/resubscribe", map[string]any{"id": a.tasks[int(n.Add(1))%len(a.tasks)]})
		if conn := a.open("text/event-stream\r\nLast-Event-ID: 0", body, len(body)); conn != nil {
			a.pause(10 * time.Second)
			_ = conn.Close()
		}
	})
}

// attackRepeats repeats a message of each large task.
func attackRepeats(a *attacker) {
	var bodies []string
	for _, id := range a.tasks {
		bodies = append(bodies, message1(id, `{"kind":"text","text":" "}`, true))
	}
	var n atomic.Int64
	a.repeat(20, func() { a.call(bodies[int(n.Add(1))%len(bodies)]) })
}

// attackWaiting sends large messages to a slow agent.
func attackWaiting(a *attacker) {
	parts := `{"kind":"text","text":"` + strings.Repeat(`First. Second.\f`, 50) + `"},` + bulk(4*mib)
	a.repeat(100, func() { a.call(message1("", parts, true)) })
}

// attackFiles sends messages that refer to large, slow files.
func attackFiles(a *attacker) {
	one := `{"kind":"file","file":{"mimeType":"text/plain","uri":"http://` + a.s.files + `/file"}}`
	a.repeat(8, func() {
		a.call(message1("", strings.Join([]string{one, one, one}, ","), false))
		a.pause(3 * time.Second)
	})
}

// attackHistory extends the history of a task.
func attackHistory(a *attacker) {
	id := a.tasks[0]
	a.repeat(2, func() {
		a.call(message1(id, bulk(9*mib), false))
		a.call(message1(id, `{"kind":"text","text":" "}`, true))
		a.pause(time.Second)
	})
}

// attackStalled starts large requests and does not complete them.
func attackStalled(a *attacker) {
	begin := message1("", bulk(2*mib), false)
	a.repeat(100, func() {
		if conn := a.open("application/json", begin[:mib], 9*mib); conn != nil {
			a.pause(10 * time.Second)
			_ = conn.Close()
		}
	})
}

// startLongTask starts a task that runs until the attack ends.
func startLongTask(a *attacker) {
	_, answer := a.call(message1("", `{"kind":"text","text":"`+strings.Repeat(`First. Second.\f`, int(attackTime(a.s.t)/(100*time.Millisecond)))+`"}`, false))
	var reply struct{ Result struct{ ID string } }
	if json.Unmarshal(answer, &reply) != nil || reply.Result.ID == "" {
		a.s.t.Errorf("a long task before the attack: %.300s", answer)
	}
	a.tasks = append(a.tasks, reply.Result.ID)
}

// attackStreams keeps FAULTS_STREAMS streams open. All follow one long task, because each running
// task occupies a worker.
func attackStreams(a *attacker) {
	most := 500
	if n, err := strconv.Atoi(os.Getenv("FAULTS_STREAMS")); err == nil {
		most = n
	}
	body := request("tasks/resubscribe", map[string]any{"id": a.tasks[0]})
	a.repeat(most/2, func() {
		if conn := a.open("text/event-stream", body, len(body)); conn != nil {
			stop := context.AfterFunc(a.ctx, func() { _ = conn.Close() })
			_, _ = io.Copy(io.Discard, conn)
			stop()
			_ = conn.Close()
			a.pause(time.Second) // the task may have ended
		}
	})
}

// attackQueue sends many small messages at a time.
func attackQueue(a *attacker) {
	parts := `{"kind":"text","text":" "}`
	a.repeat(4, func() {
		for range 100 {
			if a.ctx.Err() != nil {
				return
			}
			a.call(message1("", parts, false))
		}
		a.pause(time.Second)
	})
}

// slowFiles serves a file of 9.9 MB and delays its last byte until the attacks have ended. It serves the text /prose
// without a delay.
func slowFiles(t *testing.T, over context.Context) string {
	t.Helper()
	content := []byte(strings.Repeat(strings.Repeat(" ", 99)+"\n", 99_000))
	text := sync.OnceValue(func() string { return prose(9 * mib) })
	return slowServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/prose" {
			_, _ = io.WriteString(w, text())
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:len(content)-1])
		select {
		case <-time.After(3 * time.Second):
		case <-over.Done():
		case <-r.Context().Done():
		}
		_, _ = w.Write(content[len(content)-1:])
	})
}

// slowReceiver reads webhook requests at 64 KB at a time, until the attacks have ended.
func slowReceiver(t *testing.T, over context.Context) string {
	t.Helper()
	return slowServer(t, func(w http.ResponseWriter, r *http.Request) {
		for end := time.Now().Add(9 * time.Second); over.Err() == nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if _, err := io.CopyN(io.Discard, r.Body, 64<<10); err != nil {
				break
			}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	})
}

func slowServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if tcp, ok := c.(*net.TCPConn); ok && state == http.StateNew {
			_ = tcp.SetReadBuffer(64 << 10)
		}
	}
	s.Start()
	t.Cleanup(s.CloseClientConnections)
	return s.Listener.Addr().String()
}
