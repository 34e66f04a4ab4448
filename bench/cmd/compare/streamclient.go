package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// subscriber reads one stream of events.
type subscriber struct {
	conn net.Conn
	in   *bufio.Reader
	body io.Reader
	seen []time.Duration // from the time in each event to its arrival
}

// subscribe opens a stream and reads its first event. request is a whole HTTP request.
func subscribe(ctx context.Context, address, request string) (*subscriber, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &subscriber{conn: conn, in: bufio.NewReaderSize(conn, 2<<10)}
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	resp, err := http.ReadResponse(s.in, nil) //nolint:bodyclose // closing the connection ends the stream
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return nil, errors.Join(fmt.Errorf("stream: status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type")), conn.Close())
	}
	s.body = resp.Body
	var first [1]byte
	if _, err := io.ReadFull(s.body, first[:]); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// read reads events with a time until it has seen a number of them.
func (s *subscriber) read(events int) error {
	lines := bufio.NewReaderSize(s.body, 2<<10)
	for len(s.seen) < events {
		line, err := lines.ReadBytes('\n')
		now := time.Now()
		if err != nil {
			return fmt.Errorf("stream ended after %d of %d events: %w", len(s.seen), events, err)
		}
		_, after, found := bytes.Cut(line, []byte("@"))
		if !found {
			continue
		}
		stamp, _, _ := bytes.Cut(after, []byte("@"))
		nanos, err := strconv.ParseInt(string(stamp), 10, 64)
		if err != nil {
			return err
		}
		s.seen = append(s.seen, now.Sub(time.Unix(0, nanos)))
	}
	return nil
}

// subscribers opens streams, a few at a time. request returns the request of each.
func subscribers(ctx context.Context, rawURL string, n int, request func(i int, host string) string) ([]*subscriber, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	all := make([]*subscriber, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range all {
		slots <- struct{}{}
		wg.Go(func() {
			all[i], errs[i] = subscribe(ctx, u.Host, request(i, u.Host))
			<-slots
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(all)
		return nil, fmt.Errorf("open %d streams: %w", n, err)
	}
	return all, nil
}

func closeAll(all []*subscriber) {
	for _, s := range all {
		if s != nil {
			_ = s.conn.Close() // nothing is written
		}
	}
}
