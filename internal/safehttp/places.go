package safehttp

import (
	"io"
	"net/netip"
	"sync"
)

// places limits the concurrent requests to each address, whatever the host names of their URLs.
type places struct {
	most int // per address; 0 for no limit

	mu    sync.Mutex
	taken map[netip.Prefix]int
}

// network6 is the number of bits of an IPv6 address that are significant: one machine may have
// all addresses of such a network.
const network6 = 64

func place(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = network6
	}
	p, _ := addr.Prefix(bits) // the length is valid
	return p
}

// acquire counts a request to each target below the limit. It returns these targets, and a
// function that ends the request. counted returns the address for which a target counts, and
// false if the target is not limited.
func (p *places) acquire(targets []netip.AddrPort, counted func(netip.Addr) (netip.Addr, bool)) (free []netip.AddrPort, release func()) {
	if p.most == 0 {
		return targets, func() {}
	}
	var held []netip.Prefix
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range targets {
		addr, counts := counted(to.Addr())
		if !counts {
			free = append(free, to)
			continue
		}
		if at := place(addr); p.taken[at] < p.most {
			if p.taken == nil {
				p.taken = make(map[netip.Prefix]int)
			}
			p.taken[at]++
			free, held = append(free, to), append(held, at)
		}
	}
	return free, sync.OnceFunc(func() { p.give(held) })
}

func (p *places) give(held []netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range held {
		if p.taken[at]--; p.taken[at] == 0 {
			delete(p.taken, at)
		}
	}
}

// countedBody is a response body that calls release when it is closed.
type countedBody struct {
	io.ReadCloser
	release func()
}

func (b *countedBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
