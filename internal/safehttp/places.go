package safehttp

import (
	"io"
	"net/netip"
	"sync"
)

// places counts the requests under way to each address, so that many names for one
// address do not add up to a flood.
type places struct {
	most int // 0: no limit

	mu    sync.Mutex
	taken map[netip.Prefix]int
}

// network6 is how much of an IPv6 address counts: one machine may have all of the rest.
const network6 = 64

func place(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = network6
	}
	p, _ := addr.Prefix(bits) // of a length that fits
	return p
}

// take returns the targets that have a free place, and a function that releases the places. counted returns
// the address that a target counts for, and false if the target is not limited.
func (p *places) take(targets []netip.AddrPort, counted func(netip.Addr) (netip.Addr, bool)) (free []netip.AddrPort, release func()) {
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

// placed is a body that gives a place back when it is closed.
type placed struct {
	io.ReadCloser
	release func()
}

func (b *placed) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
