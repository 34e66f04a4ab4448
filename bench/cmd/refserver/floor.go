package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// floorHandler is the baseline for Holdfast's blocking message/send: net/http and typed
// encoding/json with the same response. With a store it makes the same two commits, for the message
// and for the response, grouped with the commits of other callers. It validates nothing and serves
// no other method.
func floorHandler(commit committer) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var req floorRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := answerFloor(r.Context(), &req, commit)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(answer) // fails only if the client has disconnected
	})
}

func answerFloor(ctx context.Context, req *floorRequest, commit committer) (*floorAnswer, error) {
	var text strings.Builder
	for _, p := range req.Params.Message.Parts {
		text.WriteString(p.Text)
	}
	m := req.Params.Message
	m.TaskID, m.ContextID = uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()
	t := floorTask{
		Kind: "task", ID: m.TaskID, ContextID: m.ContextID, History: []floorMessage{m},
		Artifacts: []floorArtifact{{ID: uuid.Must(uuid.NewV7()).String(), Name: "echo", Parts: []floorPart{{Kind: "text", Text: "echo: " + text.String()}}}},
		Status:    floorStatus{State: "completed", Timestamp: time.Now().UTC()},
	}
	if commit != nil {
		message, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		artifacts, err := json.Marshal(t.Artifacts)
		if err != nil {
			return nil, err
		}
		if err := commit(ctx, &floorWrite{id: t.ID, text: string(message)}); err != nil {
			return nil, fmt.Errorf("store the message: %w", err)
		}
		if err := commit(ctx, &floorWrite{id: t.ID, text: string(artifacts), ends: true}); err != nil {
			return nil, fmt.Errorf("store the answer: %w", err)
		}
	}
	return &floorAnswer{JSONRPC: "2.0", ID: req.ID, Result: t}, nil
}

type floorRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Message floorMessage `json:"message"`
	} `json:"params"`
}

type floorAnswer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  floorTask       `json:"result"`
}

type floorTask struct {
	Kind      string          `json:"kind"`
	ID        string          `json:"id"`
	ContextID string          `json:"contextId"`
	Status    floorStatus     `json:"status"`
	History   []floorMessage  `json:"history"`
	Artifacts []floorArtifact `json:"artifacts"`
}

type floorStatus struct {
	State     string    `json:"state"`
	Timestamp time.Time `json:"timestamp"`
}

type floorMessage struct {
	Kind      string      `json:"kind"`
	MessageID string      `json:"messageId"`
	Role      string      `json:"role"`
	Parts     []floorPart `json:"parts"`
	TaskID    string      `json:"taskId,omitempty"`
	ContextID string      `json:"contextId,omitempty"`
}

type floorArtifact struct {
	ID    string      `json:"artifactId"`
	Name  string      `json:"name"`
	Parts []floorPart `json:"parts"`
}

type floorPart struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}
