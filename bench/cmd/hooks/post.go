package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// post posts bodies with a bare client over persistent connections, and returns the number of 2xx
// responses.
func post(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/run" {
		http.NotFound(rw, r)
		return
	}
	query := r.URL.Query()
	size, err := strconv.Atoi(query.Get("bytes"))
	connections, err2 := strconv.Atoi(query.Get("connections"))
	length, err3 := time.ParseDuration(query.Get("for"))
	if err != nil || err2 != nil || err3 != nil || size < 1 || connections < 1 {
		http.Error(rw, "want url, bytes, connections and for", http.StatusBadRequest)
		return
	}
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
		Timeout:   10 * time.Second,
	}
	defer client.CloseIdleConnections()
	end := time.Now().Add(length)
	body := bytes.Repeat([]byte("x"), size)
	var posted atomic.Int64
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for one := true; one || time.Now().Before(end); one = false { // at least one
				if postOne(r.Context(), client, query.Get("url"), body) == nil {
					posted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	fmt.Fprintln(rw, posted.Load())
}

func postOne(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}
