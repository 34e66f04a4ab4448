package pgtest

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Proxy forwards TCP connections to a database. Tests cut, delay and refuse them.
type Proxy struct {
	t      T
	target string

	listen  net.Listener
	running sync.WaitGroup

	mu sync.Mutex
	// While the proxy is armed, it cuts all connections after it has forwarded remaining more bytes
	// of answers. The server still receives everything that the clients have sent.
	remaining int
	armed     bool
	conns     map[net.Conn]chan struct{} // closed when the server is done with the connection
	cuts      int
	heldUntil chan struct{}    // if set, data to the server is held until the channel is closed
	heldText  []byte           // if set, only the next data that contains it is held
	heldBytes []byte           // the held data
	refused   bool             // refuse new connections
	held      *HeldTransaction // if set, the next large transaction is held before its end
}

// HeldTransaction is a transaction that the proxy holds before its end.
type HeldTransaction struct {
	minSize  int           // minimum size of the transaction
	Seen     chan struct{} // closed when a transaction is held
	released chan struct{}
	Release  func() // closes released
}

// HoldEnd holds the end of the next transaction of at least minSize bytes, and all later data
// on its connection, until it is released.
func (p *Proxy) HoldEnd(minSize int) *HeldTransaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &HeldTransaction{minSize: minSize, Seen: make(chan struct{}), released: make(chan struct{})}
	s.Release = sync.OnceFunc(func() { close(s.released) })
	p.t.Cleanup(s.Release)
	p.held = s
	return s
}

// takeHeld returns the HeldTransaction for a transaction that ends now, nil to forward it.
func (p *Proxy) takeHeld(size int) *HeldTransaction {
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

// NewProxy starts a proxy in front of a database and returns its URL. It runs until the test ends.
func NewProxy(t T, database string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{t: t, target: u.Host, conns: make(map[net.Conn]chan struct{})}
	p.Listen("127.0.0.1:0")
	u.Host = p.listen.Addr().String()
	t.Cleanup(func() {
		_ = p.listen.Close()
		p.Release()
		p.CutAll()
		p.running.Wait()
	})
	return p, u.String()
}

// Listen accepts connections at an address.
func (p *Proxy) Listen(address string) {
	p.t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
	p.listen = l
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(c) })
		}
	})
}

// Close closes the listener, so that new connections are refused until Listen, and returns its address.
func (p *Proxy) Close() (address string) {
	address = p.listen.Addr().String()
	_ = p.listen.Close()
	return address
}

// CutAfter forwards n more bytes of answers and then cuts all connections.
func (p *Proxy) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remaining, p.armed = n, true
}

// Disarm cancels CutAfter.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
}

// IsArmed reports whether CutAfter has not cut the connections yet.
func (p *Proxy) IsArmed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.armed
}

// Cuts returns how often CutAfter has cut the connections.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Hold holds data to the server until Release.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldUntil, p.heldText, p.heldBytes = make(chan struct{}), nil, nil
}

// HoldText holds the next data to the server that contains text, and all later data on its
// connection, until Release is called. All else is forwarded.
func (p *Proxy) HoldText(text string) (release func()) {
	p.Hold()
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

// Holds reports whether the held data contains a text.
func (p *Proxy) Holds(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.heldBytes, []byte(text))
}

// Release forwards the held data.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heldUntil != nil {
		close(p.heldUntil)
		p.heldUntil = nil
	}
}

// Partition blocks all data to the server and refuses connections until Heal. It returns
// channels that are closed when the server has closed the current connections.
func (p *Proxy) Partition() (done []chan struct{}) {
	p.Hold()
	p.Refuse()
	return p.Connections()
}

// Connections returns channels that are closed when the server has closed the current connections.
func (p *Proxy) Connections() (done []chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.conns))
}

// Refuse refuses new connections until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = true
}

// Heal permits new connections, and returns a function that releases the held data of the old
// ones.
func (p *Proxy) Heal() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lag := p.heldUntil
	p.heldUntil, p.refused = nil, false
	release = sync.OnceFunc(func() { close(lag) })
	p.t.Cleanup(release)
	return release
}

// CutAll cuts the connections of the clients. The server still receives what they have sent.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refused := p.refused
	p.mu.Unlock()
	if refused {
		_ = client.Close()
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
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
func (p *Proxy) forward(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for size := 0; ; {
		n, err := client.Read(buf)
		if size += n; bytes.HasSuffix(buf[:n], syncMessage) {
			if s := p.takeHeld(size); s != nil {
				_, _ = server.Write(buf[:n-len(syncMessage)])
				copy(buf, syncMessage)
				n = len(syncMessage)
				close(s.Seen)
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

func (p *Proxy) backward(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	cut := false
	for {
		n, err := server.Read(buf)
		if !cut && n > 0 {
			n, cut = p.pass(n)
			_, err := client.Write(buf[:n])
			if cut {
				p.CutAll()
			}
			cut = cut || err != nil // the client was cut before
		}
		if err != nil {
			return
		}
	}
}

// pass returns how many of n bytes to forward, and whether to cut the connection then.
func (p *Proxy) pass(n int) (int, bool) {
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

// Exec runs statements on a server, and again if another test changes the same rights.
func Exec(t T, server string, texts ...string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = c.Close(ctx) }()
	for _, text := range texts {
		_, err := c.Exec(ctx, text)
		for err != nil && strings.Contains(err.Error(), "tuple concurrently updated") {
			_, err = c.Exec(ctx, text)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}
