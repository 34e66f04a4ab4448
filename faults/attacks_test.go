//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// attack is what a hostile owner does until the context of the attacker is done.
type attack struct {
	name string
	run  func(a *attacker)
}

const mib = 1 << 20

var attacks = []attack{
	{"webhooks with the task", attackWebhooks},
	{"batches of large answers", attackBatches},
	{"readers that do not read", attackUnread},
	{"sends that wait", attackWaiting},
	{"files by URI", attackFiles},
	{"a long history", attackHistory},
	{"bodies that stall", attackStalled},
	{"streams", attackStreams},
	{"a full queue", attackQueue},
}

// attackWebhooks has webhooks of large tasks, which a receiver is slow to take, sent the
// whole task at each event.
func attackWebhooks(a *attacker) {
	var tasks []string
	for range 3 {
		id := a.task(9 * mib)
		for range 10 {
			a.call(request("tasks/pushNotificationConfig/set", map[string]any{
				"taskId": id, "pushNotificationConfig": map[string]any{"id": newID(), "url": "http://" + a.s.receiver + "/" + newID(), "payloadFormat": "task"},
			}))
		}
		tasks = append(tasks, id)
	}
	for a.pause(time.Second) {
		for _, id := range tasks {
			a.call(message1(id, `{"kind":"text","text":" "}`, false))
		}
	}
}

// attackBatches asks for one large task fifty times in one request, and takes the answers
// slowly.
func attackBatches(a *attacker) {
	id := a.task(9 * mib)
	one := request("tasks/get", map[string]any{"id": id})
	batch := "[" + strings.Repeat(one+",", 49) + one + "]"
	a.crowd(4, func() {
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

// attackUnread asks for large answers and streams and reads nothing of them.
func attackUnread(a *attacker) {
	var ids []string
	for range 3 {
		ids = append(ids, a.task(9*mib))
	}
	n := 0
	a.crowd(40, func() {
		n++
		accept, method := "application/json", "tasks/get"
		if n%2 == 0 {
			accept, method = "text/event-stream", "tasks/resubscribe"
		}
		body := request(method, map[string]any{"id": ids[n%len(ids)]})
		if conn := a.open(accept, body, len(body)); conn != nil {
			a.pause(10 * time.Second)
			_ = conn.Close()
		}
	})
}

// attackWaiting has large messages wait for an agent that takes its time.
func attackWaiting(a *attacker) {
	parts := `{"kind":"text","text":"` + strings.Repeat(`First. Second.\f`, 50) + `"},` + bulk(4*mib)
	a.crowd(100, func() { a.call(message1("", parts, true)) })
}

// attackFiles names files that are large and slow to come.
func attackFiles(a *attacker) {
	one := `{"kind":"file","file":{"mimeType":"text/plain","uri":"http://` + a.s.files + `/file"}}`
	a.crowd(8, func() {
		a.call(message1("", strings.Join([]string{one, one, one}, ","), false))
		a.pause(3 * time.Second)
	})
}

// attackHistory makes a task long, and longer.
func attackHistory(a *attacker) {
	id := a.task(9 * mib)
	a.crowd(2, func() {
		a.call(message1(id, bulk(9*mib), false))
		a.call(message1(id, `{"kind":"text","text":" "}`, true))
		a.pause(time.Second)
	})
}

// attackStalled begins large requests and does not end them.
func attackStalled(a *attacker) {
	begin := message1("", bulk(2*mib), false)
	a.crowd(100, func() {
		if conn := a.open("application/json", begin[:mib], 9*mib); conn != nil {
			a.pause(10 * time.Second)
			_ = conn.Close()
		}
	})
}

// attackStreams keeps as many streams open as FAULTS_STREAMS says.
func attackStreams(a *attacker) {
	most := 500
	if n, err := strconv.Atoi(os.Getenv("FAULTS_STREAMS")); err == nil {
		most = n
	}
	// One task that runs for long: each takes a worker.
	_, answer := a.call(message1("", `{"kind":"text","text":"`+strings.Repeat(`First. Second.\f`, int(attackTime(a.s.t)/(100*time.Millisecond)))+`"}`, false))
	var reply struct{ Result struct{ ID string } }
	_ = json.Unmarshal(answer, &reply)
	body := request("tasks/resubscribe", map[string]any{"id": reply.Result.ID})
	a.crowd(most/2, func() {
		if conn := a.open("text/event-stream", body, len(body)); conn != nil {
			stop := context.AfterFunc(a.ctx, func() { _ = conn.Close() })
			_, _ = io.Copy(io.Discard, conn)
			stop()
			_ = conn.Close()
			a.pause(time.Second) // the task may be over
		}
	})
}

// attackQueue sends many small messages at a time.
func attackQueue(a *attacker) {
	parts := `{"kind":"text","text":" "}`
	a.crowd(4, func() {
		for range 100 {
			if a.ctx.Err() != nil {
				return
			}
			a.call(message1("", parts, false))
		}
		a.pause(time.Second)
	})
}

// slowFiles serves a file of 9.9 MB whose last byte takes a while, until the attacks are over.
func slowFiles(t *testing.T, over context.Context) string {
	t.Helper()
	content := []byte(strings.Repeat(strings.Repeat(" ", 99)+"\n", 99_000))
	return slowServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(content[:len(content)-1])
		select {
		case <-time.After(3 * time.Second):
		case <-over.Done():
		case <-r.Context().Done():
		}
		_, _ = w.Write(content[len(content)-1:])
	})
}

// slowReceiver takes webhooks 64 KB at a time, until the attacks are over.
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
