//go:build faults

package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// message returns the body of a message/send with a text of n bytes. The body is generated while
// it is read, so that the sender needs no memory for it.
func message(n int64) (body io.Reader, length int64) {
	head := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"` + newID() +
		`","role":"user","parts":[{"kind":"text","text":"length `
	tail := `"}]},"configuration":{"historyLength":0}}}`
	n -= int64(len("length "))
	return io.MultiReader(strings.NewReader(head), io.LimitReader(letters{}, n), strings.NewReader(tail)), int64(len(head)+len(tail)) + n
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// post sends a body and returns the status and the response.
func (p *process) post(body io.Reader, length int64) (int, []byte, error) {
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, body)
	if err != nil {
		return 0, nil, err
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", "application/json")
	resp, err := httpClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, answer, err
}

// sendLarge sends a message and returns the id of its task, "" if the message was rejected
// because of a memory limit.
func (p *process) sendLarge(n int64) (string, error) {
	body, length := message(n)
	status, answer, err := p.post(body, length)
	if err != nil {
		return "", err
	}
	var reply struct {
		Result struct{ ID string }
		Error  *struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return "", fmt.Errorf("status %d: %w", status, err)
	}
	if reply.Error != nil && (reply.Error.Code == a2a.CodeExhausted.JSONRPC() || reply.Error.Code == a2a.CodeUnavailable.JSONRPC()) {
		return "", nil
	}
	if status != http.StatusOK || reply.Result.ID == "" {
		return "", fmt.Errorf("status %d: %.200s", status, answer)
	}
	return reply.Result.ID, nil
}

// TestMemoryIsBounded is not parallel, because it measures memory.
func TestMemoryIsBounded(t *testing.T) {
	const mib = 1 << 20
	s := newSite(t, "-concurrency", "16", "-memory", strconv.Itoa(1<<30))
	p := s.start()
	pid := p.cmd.Process.Pid
	idle := peakMemory(t, pid)
	ids := make(chan string, 200)
	id, err := p.sendLarge(9 * mib)
	if err != nil || id == "" {
		t.Fatalf("send of 9 MiB = %q, %v", id, err)
	}
	ids <- id
	p.awaitEnd(id)
	one := peakMemory(t, pid)
	started := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			id, err := p.sendLarge(9 * mib)
			if err != nil {
				t.Errorf("one of 100 sends of 9 MiB: %v", err)
			}
			if id != "" {
				ids <- id
			}
		})
	}
	wg.Wait()
	took := time.Since(started)
	close(ids)
	taken := len(ids)
	for id := range ids {
		none := 0
		await.Success(t, func() error {
			task, err := p.client.Task(t.Context(), a2a.TaskQueryParams{ID: id, HistoryLength: &none})
			if err == nil && task.Status.State != a2a.StateCompleted {
				err = fmt.Errorf("task %s is %s", id, task.Status.State)
			}
			return err
		})
	}
	over := time.Since(started)
	many := peakMemory(t, pid)
	t.Logf("peak memory: %d MiB idle, %d MiB with one message of 9 MiB, %d MiB with 100 at once (%d taken in %s, over after %s)",
		idle/mib, one/mib, many/mib, taken, took, over)
	if idle > 64*mib {
		t.Errorf("an idle server needs %d MiB, want at most 64", idle/mib)
	}
	if one > 250*mib {
		t.Errorf("one message of 9 MiB needs %d MiB, want at most 250", one/mib)
	}
	if many > 3<<9*mib {
		t.Errorf("100 messages of 9 MiB need %d MiB, want at most 1,536", many/mib)
	}
	body, length := message(11 * mib)
	status, answer, err := p.post(body, length)
	if err != nil || status != http.StatusRequestEntityTooLarge || !strings.Contains(string(answer), "10485760") {
		t.Errorf("send of 11 MiB = %d %.200s, %v; want 413 and the limit", status, answer, err)
	}
	body, _ = message(11 * mib)
	status, answer, err = p.post(body, -1) // chunked, without a Content-Length
	if err != nil || status != http.StatusRequestEntityTooLarge {
		t.Errorf("send of 11 MiB in chunks = %d %.200s, %v; want 413", status, answer, err)
	}
	wantState(t, p.awaitEnd(p.send("work 1ms")), a2a.StateCompleted)
	p.kill()
	started = time.Now()
	s.prove()
	t.Logf("proved in %s", time.Since(started))
}
