//go:build faults

package faults_test

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// wire is a server's way to its database, which can be stalled and cut.
type wire struct {
	target string
	listen net.Listener

	mu      sync.Mutex
	conns   map[net.Conn]bool
	refuse  bool
	stalled chan struct{} // while set, nothing passes until it is closed
}

// newWire returns a wire to a database, and the URL at its near end.
func newWire(t *testing.T, database string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{target: u.Host, listen: l, conns: make(map[net.Conn]bool)}
	u.Host = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.serve(near) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		w.heal()
		wg.Wait()
	})
	return w, u.String()
}

// stall keeps back what is sent in either direction, as a network does that loses
// every packet: no connection ends. Packets that were held arrive when it heals.
func (w *wire) stall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled = make(chan struct{})
}

// cut ends all connections and takes no new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = true
	for c := range w.conns {
		c.Close()
	}
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = false
	if w.stalled != nil {
		close(w.stalled)
		w.stalled = nil
	}
}

// open notes connections; it reports whether they may be.
func (w *wire) open(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	return !w.refuse
}

func (w *wire) serve(near net.Conn) {
	defer near.Close()
	if !w.open(near) {
		return
	}
	w.wait()
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.open(far) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.carry(near, far) })
	w.carry(far, near)
	wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, near)
	delete(w.conns, far)
}

func (w *wire) wait() {
	w.mu.Lock()
	stalled := w.stalled
	w.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

// carry carries bytes until either end closes, and closes the other.
func (w *wire) carry(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		w.wait()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
