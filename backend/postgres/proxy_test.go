//go:build services

package postgres

import (
	"bytes"
	"maps"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// proxy forwards TCP connections to the server. Tests cut, delay and refuse them.
type proxy struct {
	t      testing.TB
	target string
	listen net.Listener

	mu sync.Mutex
	// While armed, all connections are cut when remaining more bytes of answers were
	// forwarded. The server still receives everything that the clients have sent.
	remaining int
	armed     bool
	conns     map[net.Conn]chan struct{} // closed when the server is done with the connection
	cuts      int
	heldUntil chan struct{}    // if set, data to the server is held until it is closed
	heldText  []byte           // if set, only the next data that contains it is held
	heldBytes []byte           // the held data
	refused   bool             // refuse new connections
	held      *heldTransaction // if set, the next large transaction is held before its end
}

// heldTransaction is a transaction that the proxy holds before its end.
type heldTransaction struct {
	minSize  int           // minimum size of the transaction
	seen     chan struct{} // closed when a transaction is held
	released chan struct{}
	release  func() // closes released
}

// holdEnd holds the end of the next transaction of at least minSize bytes, and all later data
// on its connection, until it is released.
func (p *proxy) holdEnd(minSize int) *heldTransaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &heldTransaction{minSize: minSize, seen: make(chan struct{}), released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	p.t.Cleanup(s.release)
	p.held = s
	return s
}

// takeHeld returns the heldTransaction for a transaction that ends now, nil to forward it.
func (p *proxy) takeHeld(size int) *heldTransaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.held
	if s == nil || size < s.minSize {
		return nil
	}
	p.held = nil
	return s
}

// syncMessage ends a transaction that was sent without a BEGIN.
var syncMessage = []byte{'S', 0, 0, 0, 4}

// newProxy starts a proxy in front of a database and returns its URL.
func newProxy(t testing.TB, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{t: t, target: u.Host, listen: l, conns: make(map[net.Conn]chan struct{})}
	u.Host = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.release()
		p.cutAll()
		wg.Wait()
	})
	return p, u.String()
}

// cutAfter forwards n more bytes of answers and then cuts all connections.
func (p *proxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remaining, p.armed = n, true
}

// disarm cancels cutAfter.
func (p *proxy) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
}

// isArmed reports whether cutAfter has not cut the connections yet.
func (p *proxy) isArmed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.armed
}

// hold holds data to the server until release.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldUntil, p.heldText, p.heldBytes = make(chan struct{}), nil, nil
}

// holdText holds the next data to the server that contains text, and all later data on its
// connection, until release is called. All else is forwarded.
func (p *proxy) holdText(text string) (release func()) {
	p.hold()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldText = []byte(text)
	until := p.heldUntil
	release = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.heldUntil == until {
			p.heldUntil = nil
		}
		close(until)
	})
	p.t.Cleanup(release)
	return release
}

// holds reports whether the held data contains a text.
func (p *proxy) holds(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.heldBytes, []byte(text))
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heldUntil != nil {
		close(p.heldUntil)
		p.heldUntil = nil
	}
}

// partition blocks all data to the server and refuses connections until heal. It returns
// channels that are closed when the server has closed the current connections.
func (p *proxy) partition() (done []chan struct{}) {
	p.hold()
	p.refuse()
	return p.connections()
}

// connections returns channels that are closed when the server has closed the current connections.
func (p *proxy) connections() (done []chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.conns))
}

// refuse refuses new connections until heal.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
}

// heal permits new connections, and returns a function that releases the held data of the old
// ones.
func (p *proxy) heal() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lag := p.heldUntil
	p.heldUntil, p.refused = nil, false
	release = sync.OnceFunc(func() { close(lag) })
	p.t.Cleanup(release)
	return release
}

// cutAll cuts the connections of the clients. The server still receives what they have sent.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	refused := p.refused
	p.mu.Unlock()
	if refused {
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	done := make(chan struct{})
	defer close(done)
	p.mu.Lock()
	p.conns[client] = done
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.forward(client, server) })
	p.backward(client, server)
	_ = client.Close()
	wg.Wait()
	_ = server.Close()
}

// forward sends data of the client to the server, also after the client was cut.
func (p *proxy) forward(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for size := 0; ; {
		n, err := client.Read(buf)
		if size += n; bytes.HasSuffix(buf[:n], syncMessage) {
			if s := p.takeHeld(size); s != nil {
				_, _ = server.Write(buf[:n-len(syncMessage)])
				copy(buf, syncMessage)
				n = len(syncMessage)
				close(s.seen)
				<-s.released
			}
			size = 0
		}
		p.mu.Lock()
		lag := p.heldUntil
		if lag != nil && p.heldText != nil {
			if bytes.Contains(buf[:n], p.heldText) {
				p.heldUntil = nil
			} else {
				lag = nil
			}
		}
		if lag != nil {
			p.heldBytes = append(p.heldBytes, buf[:n]...)
		}
		p.mu.Unlock()
		if lag != nil && n > 0 {
			<-lag
		}
		if n > 0 {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = server.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

func (p *proxy) backward(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	cut := false
	for {
		n, err := server.Read(buf)
		if !cut && n > 0 {
			n, cut = p.pass(n)
			_, err := client.Write(buf[:n])
			if cut {
				p.cutAll()
			}
			cut = cut || err != nil // the client was cut before
		}
		if err != nil {
			return
		}
	}
}

// pass returns how many of n bytes to forward, and whether to cut the connection then.
func (p *proxy) pass(n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return n, false
	}
	if n < p.remaining {
		p.remaining -= n
		return n, false
	}
	p.armed = false
	p.cuts++
	return p.remaining, true
}
