package safehttp

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// special4 are the IPv4 networks that are not public: IANA's registry of special-purpose
// addresses, and networks that clouds use. special6 are such networks within global6. IPv6
// addresses outside of global6 are not public either.
var (
	special4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
		"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
		"192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
		"240.0.0.0/4")
	global6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)

// special returns the reason why an address is not public, or "".
func special(addr netip.Addr) string {
	list := special4
	if addr.Is6() {
		if !global6.Contains(addr) {
			return "it is outside of " + global6.String()
		}
		list = special6
	}
	for _, n := range list {
		if n.Contains(addr) {
			return "it is in " + n.String()
		}
	}
	return ""
}

// metadataAddrs are the addresses of cloud metadata services, which return credentials to every
// machine of the cloud.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // most clouds
	netip.MustParseAddr("169.254.170.2"),   // AWS containers
	netip.MustParseAddr("169.254.170.23"),  // AWS pods
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS pods
	netip.MustParseAddr("fd20:ce::254"),    // Google
}

// translations are well-known prefixes of addresses that a router may translate to the IPv4
// address in their last four bytes.
var translations = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")

// metadata returns the metadata address that addr is, or embeds in a well-known way. unwrapped
// is the result of Policy.unwrap for addr.
func metadata(addr, unwrapped netip.Addr) (netip.Addr, bool) {
	candidates := []netip.Addr{addr, unwrapped}
	if addr.Is6() {
		b := addr.As16()
		switch {
		case slices.ContainsFunc(translations, func(n netip.Prefix) bool { return n.Contains(addr) }):
			candidates = append(candidates, netip.AddrFrom4([4]byte(b[12:])))
		case b[0] == 0x20 && b[1] == 0x02: // 6to4
			candidates = append(candidates, netip.AddrFrom4([4]byte(b[2:])))
		case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0: // Teredo
			candidates = append(candidates, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
		}
	}
	for _, c := range candidates {
		if slices.Contains(metadataAddrs, c) {
			return c, true
		}
	}
	return netip.Addr{}, false
}

// wellKnown is the well-known NAT64 prefix (RFC 6052, section 2.1).
var wellKnown = netip.MustParsePrefix("64:ff9b::/96")

// onlyIPv6 reports whether a host with these addresses has no IPv4 address, so that it reaches
// IPv4 addresses only by translation.
func onlyIPv6(local []netip.Addr) bool {
	found := false
	for _, addr := range local {
		if addr.IsLoopback() || addr.IsLinkLocalUnicast() {
			continue
		}
		if addr.Is4() {
			return false
		}
		found = true
	}
	return found
}

func checkNAT64(n netip.Prefix) error {
	if !n.Addr().Is6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, n.Bits()) {
		return errors.New("want a prefix of IPv6 of 32, 40, 48, 56, 64 or 96 bits")
	}
	return nil
}

// embedded returns the IPv4 address that addr, which is in NAT64 prefix n, embeds (RFC 6052,
// section 2.2).
func embedded(n netip.Prefix, addr netip.Addr) (netip.Addr, error) {
	b := addr.As16()
	if n.Bits() == 96 {
		return netip.AddrFrom4([4]byte(b[12:])), nil
	}
	if b[8] != 0 {
		return netip.Addr{}, errors.New("it is in " + n.String() + " and its ninth byte is not zero")
	}
	bytes := slices.Delete(b[:], 8, 9)
	return netip.AddrFrom4([4]byte(bytes[n.Bits()/8:])), nil
}

// portsRefused are ports above 1023 of databases and similar services, which often execute
// requests without authentication.
var portsRefused = []uint16{1900, 2375, 2376, 2379, 2380, 3306, 5432, 5672, 5984, 6379, 6443, 8500, 9200, 9300, 10250, 10255, 11211, 27017}

func portAllowed(port uint16) bool {
	return port == 80 || port == 443 || port >= 1024 && !slices.Contains(portsRefused, port)
}

// interfaceAddrs returns the addresses of this host.
func interfaceAddrs() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	list := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				list = append(list, addr.Unmap())
			}
		}
	}
	return list, nil
}

// remember returns a function that caches the result of list for age. If list fails, the
// function returns the last result.
func remember(list func() ([]netip.Addr, error), age time.Duration) func() ([]netip.Addr, error) {
	var mu sync.Mutex
	var known []netip.Addr
	var at time.Time
	return func() ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		if !at.IsZero() && time.Since(at) < age {
			return known, nil
		}
		found, err := list()
		if err != nil {
			if at.IsZero() {
				return nil, err
			}
			return known, nil
		}
		known, at = found, time.Now()
		return known, nil
	}
}
