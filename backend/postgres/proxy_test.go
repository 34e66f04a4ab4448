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

// proxy is a TCP connection's way to the server that can be cut.
type proxy struct {
	t      testing.TB
	target string
	listen net.Listener

	mu sync.Mutex
	// cut is how many bytes of answers may pass, over all connections, before all of
	// them are cut, once armed. What was sent to the server is delivered all the same.
	cut     int
	armed   bool
	conns   map[net.Conn]chan struct{} // closed when the server is done with the connection
	cuts    int
	lag     chan struct{} // while set, what is sent to the server waits for it to be closed
	late    []byte        // what waits so
	refused bool          // new connections are refused
	short   *shortened    // while set, the next large transaction loses its end
}

// shortened is a transaction whose end is kept back.
type shortened struct {
	over     int           // how large it is at least
	held     chan struct{} // closed when there is one
	released chan struct{}
	release  func() // closes released
}

// shorten keeps back the end of the next transaction of more than so many bytes, and all
// that follows on its connection, until it is released.
func (p *proxy) shorten(over int) *shortened {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &shortened{over: over, held: make(chan struct{}), released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	p.t.Cleanup(s.release)
	p.short = s
	return s
}

// shortens takes what is to be done with a transaction of a size that ends now.
func (p *proxy) shortens(size int) *shortened {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.short
	if s == nil || size < s.over {
		return nil
	}
	p.short = nil
	return s
}

// syncMessage ends a transaction that was sent without a BEGIN.
var syncMessage = []byte{'S', 0, 0, 0, 4}

// newProxy starts a proxy in front of a database and returns its URL.
func newProxy(t testing.TB, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed by the test
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

// cutAfter lets n more bytes of answers pass and then cuts all connections.
func (p *proxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.armed = n, true
}

// disarm lets everything pass again.
func (p *proxy) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
}

// isArmed reports whether there will be a cut.
func (p *proxy) isArmed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.armed
}

// hold keeps what is sent to the server back until release.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag, p.late = make(chan struct{}), nil
}

// holds reports whether a text is in what is kept back.
func (p *proxy) holds(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.late, []byte(text))
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lag != nil {
		close(p.lag)
		p.lag = nil
	}
}

// part lets nothing through any more until detach. It returns what is closed when
// the server is done with the connections that there are.
func (p *proxy) part() (done []chan struct{}) {
	p.hold()
	p.refuse()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.conns))
}

// refuse accepts no new connections any more until detach.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
}

// detach lets new connections pass, and returns what releases those there are.
func (p *proxy) detach() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lag := p.lag
	p.lag, p.refused = nil, false
	release = sync.OnceFunc(func() { close(lag) })
	p.t.Cleanup(release)
	return release
}

// cutAll cuts the connections of the clients; the server reads what it was sent.
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
	server, err := net.Dial("tcp", p.target) //nolint:noctx // closed below
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
	p.answer(client, server)
	_ = client.Close()
	wg.Wait()
	_ = server.Close()
}

// forward carries what the client sends, also after the client was cut off.
func (p *proxy) forward(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for size := 0; ; {
		n, err := client.Read(buf)
		if size += n; bytes.HasSuffix(buf[:n], syncMessage) {
			if s := p.shortens(size); s != nil {
				_, _ = server.Write(buf[:n-len(syncMessage)])
				copy(buf, syncMessage)
				n = len(syncMessage)
				close(s.held)
				<-s.released
			}
			size = 0
		}
		p.mu.Lock()
		lag := p.lag
		if lag != nil {
			p.late = append(p.late, buf[:n]...)
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

func (p *proxy) answer(client, server net.Conn) {
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
			cut = cut || err != nil // a client that was cut off already: no other cut
		}
		if err != nil {
			return
		}
	}
}

// pass says how many of n bytes may pass, and whether the connection ends then.
func (p *proxy) pass(n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return n, false
	}
	if n < p.cut {
		p.cut -= n
		return n, false
	}
	p.armed = false
	p.cuts++
	return p.cut, true
}
