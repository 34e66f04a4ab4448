package main

import (
	"io"
	"net/http"
	"sync"
)

// fanout sends each body that is posted to it to all open streams, as an event. It stores nothing
// and does not wait for slow clients.
type fanout struct {
	mu      sync.Mutex
	streams map[chan []byte]struct{}
}

// streamBuffer is the number of events that a stream may lag behind.
const streamBuffer = 256

func (f *fanout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		event := append(append([]byte("data: "), body...), "\n\n"...)
		f.mu.Lock()
		defer f.mu.Unlock()
		for stream := range f.streams {
			stream <- event
		}
		return
	}
	events := make(chan []byte, streamBuffer)
	f.mu.Lock()
	if f.streams == nil {
		f.streams = make(map[chan []byte]struct{})
	}
	f.streams[events] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, events)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	_, err := io.WriteString(w, "data: {}\n\n")
	for err == nil {
		if err = c.Flush(); err != nil {
			return
		}
		select {
		case event := <-events:
			_, err = w.Write(event)
		case <-r.Context().Done():
			return
		}
	}
}
