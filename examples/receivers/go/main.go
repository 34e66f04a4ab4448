// Receiver receives webhook requests from Holdfast and prints the events of tasks. It uses
// only the standard library. docs/webhooks.md describes the requests.
//
//	WEBHOOK_TOKEN=s3cret WEBHOOK_SECRET=whsec_... go run ./examples/receivers/go
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBody       = 128 << 20
	tolerance     = 5 * time.Minute
	maxRemembered = 100_000 // event ids, to detect duplicates
)

// event is the body of a request. event_id identifies it, as do task_id and sequence.
type event struct {
	ID       string `json:"event_id"`
	Sequence int64  `json:"sequence"`
	Kind     string `json:"kind"`
	TaskID   string `json:"task_id"`
	Status   struct {
		State   string `json:"state"`
		Message *struct {
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"message"`
	} `json:"status"`
	Artifact struct {
		ID    string            `json:"artifact_id"`
		Name  string            `json:"name"`
		Parts []json.RawMessage `json:"parts"`
	} `json:"artifact"`
	Append    bool `json:"append"`
	LastChunk bool `json:"last_chunk"`
	Final     bool `json:"final"`
}

type receiver struct {
	token   string
	secrets [][]byte

	mu sync.Mutex
	// Received events. A durable receiver stores them in its database, in the same
	// transaction as the effects of the event.
	seen  map[string]bool
	order []string         // keys of seen, oldest first
	last  map[string]int64 // highest sequence by task
}

func main() {
	r := &receiver{token: os.Getenv("WEBHOOK_TOKEN"), seen: map[string]bool{}, last: map[string]int64{}}
	for _, secret := range strings.Fields(os.Getenv("WEBHOOK_SECRET")) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			log.Fatal("WEBHOOK_SECRET must be whsec_ followed by base64")
		}
		r.secrets = append(r.secrets, key)
	}
	if r.token == "" && r.secrets == nil {
		log.Fatal("set WEBHOOK_TOKEN, WEBHOOK_SECRET or both: otherwise anybody can send events")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8000"
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s/\n", ln.Addr())
	server := &http.Server{Handler: r, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	log.Fatal(server.Serve(ln))
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	// The signature is over the unmodified bytes.
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large or incomplete", http.StatusRequestEntityTooLarge)
		return
	}
	if err := r.verify(req.Header, body, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil || e.ID == "" || e.TaskID == "" || e.Sequence < 1 {
		http.Error(w, "not an event", http.StatusBadRequest)
		return
	}
	r.receive(&e)
	// Respond last: Holdfast resends events without a 2xx response.
	w.WriteHeader(http.StatusNoContent)
}

// verify returns an error unless the token and the signature of a request are valid.
func (r *receiver) verify(h http.Header, body []byte, now time.Time) error {
	if r.token != "" && subtle.ConstantTimeCompare([]byte(h.Get("Authorization")), []byte("Bearer "+r.token)) != 1 {
		return errors.New("wrong token")
	}
	if r.secrets == nil {
		return nil
	}
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("no timestamp")
	}
	if now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return errors.New("timestamp is too old or in the future")
	}
	for _, secret := range r.secrets {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.", id, stamp)
		mac.Write(body)
		want := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		// There are several signatures while a secret is rotated.
		for _, got := range strings.Fields(h.Get("webhook-signature")) {
			if hmac.Equal([]byte(got), want) {
				return nil
			}
		}
	}
	return errors.New("wrong signature")
}

// receive prints an event unless it is a duplicate.
func (r *receiver) receive(e *event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[e.ID] {
		fmt.Fprintf(os.Stderr, "duplicate: %s %d\n", e.TaskID, e.Sequence)
		return
	}
	note := ""
	switch last := r.last[e.TaskID]; {
	case e.Sequence < last:
		note = " (late)" // replayed: later events were received before
	case last > 0 && e.Sequence > last+1:
		note = " (some before it are missing)" // dead letters: replay them, or get the task
	}
	fmt.Printf("%s %d %s%s\n", e.TaskID, e.Sequence, e.describe(), note)
	r.last[e.TaskID] = max(r.last[e.TaskID], e.Sequence)
	r.seen[e.ID] = true
	if r.order = append(r.order, e.ID); len(r.order) > maxRemembered {
		delete(r.seen, r.order[0])
		r.order = r.order[1:]
	}
}

func (e *event) describe() string {
	if e.Kind == "artifact-update" {
		name := e.Artifact.Name
		if name == "" {
			name = e.Artifact.ID
		}
		switch {
		case !e.Append && len(e.Artifact.Parts) == 0:
			name += " (withdrawn)"
		case e.LastChunk:
			name += " (complete)"
		}
		return "artifact " + name
	}
	text := e.Status.State
	if m := e.Status.Message; m != nil && len(m.Parts) > 0 {
		text += ": " + m.Parts[0].Text
	}
	if e.Final {
		text += " (final)"
	}
	return text
}
