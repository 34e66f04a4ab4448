package safehttp

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"slices"
	"testing"
	"time"

	"code.dny.dev/ssrf"
)

// isPublic is the rule written a second time, by octets.
func isPublic(addr netip.Addr) bool {
	if addr.Zone() != "" {
		return false
	}
	if addr = addr.Unmap(); addr.Is4() {
		b := addr.As4()
		three := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
		switch b[0] {
		case 0, 10, 127:
			return false
		case 100:
			return b[1] < 64 || b[1] > 127
		case 168:
			return b != [4]byte{168, 63, 129, 16}
		case 169:
			return b[1] != 254
		case 172:
			return b[1] < 16 || b[1] > 31
		case 192:
			return b[1] != 168 && !slices.Contains([]uint32{0xc00000, 0xc00002, 0xc01fc4, 0xc034c1, 0xc05863, 0xc0af30}, three)
		case 198:
			return b[1] != 18 && b[1] != 19 && three != 0xc63364
		case 203:
			return three != 0xcb0071
		}
		return b[0] < 224
	}
	b := addr.As16()
	high := binary.BigEndian.Uint64(b[:8])
	switch {
	case b[0]>>5 != 1, high>>48 == 0x2002, high>>32 == 0x20010db8, high>>16 == 0x2620004f8000, high>>44 == 0x3fff0:
		return false
	}
	return high>>48 != 0x2001 || b[2] > 1
}

// edges returns the first and last address of a network and those next to them.
func edges(n netip.Prefix) []netip.Addr {
	first := n.Masked().Addr()
	b := first.AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	all := []netip.Addr{first.Prev(), first, first.Next(), last.Prev(), last, last.Next()}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.IsValid() })
}

// samples are addresses at the edges of all networks, in the corpus, and by chance.
func samples(t testing.TB) []netip.Addr {
	var all []netip.Addr
	for _, n := range slices.Concat(special4, special6, []netip.Prefix{global6}, ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes, translations) {
		all = append(all, edges(n)...)
	}
	all = append(all, metadataAddrs...)
	all = append(all, corpusLiterals(t)...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], random.Uint64())
		binary.BigEndian.PutUint64(b[8:], random.Uint64())
		all = append(all, netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[:])))
		b[0], b[1] = 0x20, b[1]&3
		all = append(all, netip.AddrFrom16(b))
	}
	return all
}

// corpusLiterals are the addresses that the corpus has as literals and as answers.
func corpusLiterals(t testing.TB) []netip.Addr {
	var all []netip.Addr
	urls, _ := corpus(t, "ssrf_corpus.txt")
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil {
			if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
				all = append(all, addr.Unmap())
			}
		}
	}
	for _, answers := range corpusAnswers {
		all = append(all, answers...)
	}
	return all
}

func TestTableIsTheRule(t *testing.T) {
	t.Parallel()
	p := Policy{Local: func() ([]netip.Addr, error) { return nil, nil }}
	counts := map[bool]int{}
	for _, addr := range samples(t) {
		err := p.CheckAddr("", netip.AddrPortFrom(addr, 443))
		if (err == nil) != isPublic(addr) {
			t.Errorf("CheckAddr(%s) = %v, want public = %v", addr, err, isPublic(addr))
		}
		counts[err == nil]++
	}
	if counts[true] < 1000 || counts[false] < 1000 {
		t.Errorf("%d allowed and %d refused, want many of both", counts[true], counts[false])
	}
}

func TestAddressTableRefusesAllThatSSRFRefuses(t *testing.T) {
	t.Parallel()
	guard := ssrf.New(ssrf.WithAnyPort())
	p := Policy{Local: func() ([]netip.Addr, error) { return nil, nil }}
	var ours []netip.Addr
	for _, addr := range samples(t) {
		addr = addr.Unmap() // the guard refuses all of ::ffff:0:0/96
		theirs := guard.SafeAddr(addr) != nil
		refused := p.CheckAddr("", netip.AddrPortFrom(addr, 443)) != nil
		if theirs && !refused {
			t.Errorf("%s is allowed, want it refused as ssrf does", addr)
		}
		if refused && !theirs && !slices.Contains(ours, addr) {
			ours = append(ours, addr)
		}
	}
	t.Logf("refused here alone: %v", ours)
	if want := list("168.63.129.16"); !slices.Equal(ours, want) {
		t.Errorf("refused here and allowed by ssrf: %v, want %v", ours, want)
	}
}

// alone are addresses that only one network of the table refuses. They are tested in addition
// to the addresses of the corpus.
var alone = list("10.1.2.3", "192.0.2.9", "192.31.196.1", "192.175.48.1", "203.0.113.7", "2001:2::1", "3fff::1")

func TestEachNetworkOfTheTableIsNeeded(t *testing.T) {
	t.Parallel()
	tested := append(corpusLiterals(t), alone...)
	for _, n := range slices.Concat(special4, special6) {
		needed := func(addr netip.Addr) bool {
			others := slices.DeleteFunc(slices.Concat(special4, special6), func(o netip.Prefix) bool { return o == n })
			return n.Contains(addr) && !slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Contains(addr) }) && !isPublic(addr)
		}
		if !slices.ContainsFunc(tested, needed) {
			t.Errorf("no address is refused by %s alone: the table would pass its tests without it", n)
		}
	}
	outside := func(addr netip.Addr) bool { return addr.Is6() && !global6.Contains(addr) }
	if !slices.ContainsFunc(tested, outside) {
		t.Errorf("no address is outside of %s", global6)
	}
	for _, addr := range tested {
		if isPublic(addr) != (special(addr) == "") {
			t.Errorf("special(%s) = %q, want it said if and only if the address is not public", addr, special(addr))
		}
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	var p Policy
	for _, port := range []uint16{0, 1, 22, 25, 53, 79, 81, 442, 444, 1023, 1900, 2375, 2376, 2379, 2380, 3306, 5432, 5672, 5984, 6379, 6443, 8500, 9200, 9300, 10250, 10255, 11211, 27017} {
		if err := p.CheckAddr("", netip.AddrPortFrom(list(public)[0], port)); rule(err) != "port" {
			t.Errorf("CheckAddr(port %d) = %v, want the port refused", port, err)
		}
	}
	for _, port := range []uint16{80, 443, 1024, 3000, 8080, 8443, 27018, 65535} {
		if err := p.CheckAddr("", netip.AddrPortFrom(list(public)[0], port)); err != nil {
			t.Errorf("CheckAddr(port %d): %v", port, err)
		}
	}
}

func TestEmbeddedAddresses(t *testing.T) {
	t.Parallel()
	// The examples of RFC 6052, section 2.4, all of 192.0.2.33, and of a public address.
	for _, c := range []struct{ prefix, private, public string }{
		{"2001:db8::/32", "2001:db8:c000:221::", "2001:db8:5db8:d822::"},
		{"2001:db8:100::/40", "2001:db8:1c0:2:21::", "2001:db8:15d:b8d8:22::"},
		{"2001:db8:122::/48", "2001:db8:122:c000:2:2100::", "2001:db8:122:5db8:d8:2200::"},
		{"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::", "2001:db8:122:35d:b8:d822::"},
		{"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::", "2001:db8:122:344:5d:b8d8:2200::"},
		{"2001:db8:122:344::/96", "2001:db8:122:344::c000:221", "2001:db8:122:344::5db8:d822"},
		{"64:ff9b::/96", "64:ff9b::192.0.2.33", "64:ff9b::93.184.216.34"},
	} {
		p := Policy{NAT64: prefixes(c.prefix)}
		private, embeds := netip.MustParseAddr(c.private), netip.MustParseAddr(c.public)
		for addr, want := range map[netip.Addr]string{private: "192.0.2.33", embeds: public} {
			if got, err := p.unwrap(addr); err != nil || got.String() != want {
				t.Errorf("%s in %s embeds %v, %v, want %s", addr, c.prefix, got, err, want)
			}
		}
		if err := p.CheckAddr("", netip.AddrPortFrom(private, 443)); rule(err) != "address" {
			t.Errorf("CheckAddr(%s) with NAT64 %s = %v, want it refused", private, c.prefix, err)
		}
		if err := p.CheckAddr("", netip.AddrPortFrom(embeds, 443)); err != nil {
			t.Errorf("CheckAddr(%s) with NAT64 %s: %v", embeds, c.prefix, err)
		}
	}
	p := Policy{NAT64: prefixes("2001:db8:122::/48")}
	if err := p.CheckAddr("", netip.MustParseAddrPort("[2001:db8:122:5db8:ffd8:2200::]:443")); rule(err) != "address" {
		t.Errorf("CheckAddr = %v, want a refusal, because the ninth byte is not zero", err)
	}
	p = Policy{NAT64: prefixes("2a00:1234::/96"), Local: ownAddrs}
	if err := p.CheckAddr("", netip.MustParseAddrPort("[2a00:1234::"+ownAddr+"]:443")); rule(err) != "address" {
		t.Errorf("CheckAddr = %v, want an own address refused although it is embedded", err)
	}
}

func TestWellKnownNAT64IsForHostsWithoutIPv4(t *testing.T) {
	t.Parallel()
	alone := []string{"127.0.0.1", "::1", "169.254.7.7", "fe80::1", "2a00:5::7"}
	for _, c := range []struct {
		name  string
		local []string
		to    string
		want  string
	}{
		{"public", alone, "64:ff9b::" + public, ""},
		{"private", alone, "64:ff9b::10.0.0.1", "address"},
		{"loopback", alone, "64:ff9b::127.0.0.1", "address"},
		{"metadata", alone, "64:ff9b::169.254.169.254", "address"},
		{"local-use prefix", alone, "64:ff9b:1::" + public, "address"},
		{"network beside it", alone, "64:ff9b::1:0:0", "address"},
		{"own by a unique local address", []string{"fd00::7"}, "64:ff9b::" + public, ""},
		{"host with IPv4 too", append(alone, "10.0.0.7"), "64:ff9b::" + public, "address"},
		{"host with IPv4 alone", []string{"10.0.0.7"}, "64:ff9b::" + public, "address"},
		{"host without a network", []string{"127.0.0.1", "::1", "fe80::1"}, "64:ff9b::" + public, "address"},
	} {
		p := Policy{Local: func() ([]netip.Addr, error) { return list(c.local...), nil }}
		if err := p.CheckAddr("", netip.AddrPortFrom(netip.MustParseAddr(c.to), 443)); rule(err) != c.want {
			t.Errorf("%s: CheckAddr(%s) = %v, want refused by %q", c.name, c.to, err, c.want)
		}
	}
	unknown := Policy{Local: func() ([]netip.Addr, error) { return nil, errors.New("no interfaces") }}
	if err := unknown.CheckAddr("", netip.AddrPortFrom(netip.MustParseAddr("64:ff9b::"+public), 443)); err == nil {
		t.Error("CheckAddr without the addresses of this host = nil, want an error")
	}
}

func TestMetadataIsAllowedAloneOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range list("169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254") {
		to := netip.AddrPortFrom(addr, 80)
		wide := Policy{AllowNets: prefixes("0.0.0.0/0", "::/0"), AllowHosts: []string{"meta.example:80"}}
		if err := wide.CheckAddr("meta.example:80", to); rule(err) != "address" {
			t.Errorf("CheckAddr(%s) = %v with everything allowed, want it refused", addr, err)
		}
		one := Policy{AllowNets: []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}}
		if err := one.CheckAddr("", to); err != nil {
			t.Errorf("CheckAddr(%s) with it allowed: %v", addr, err)
		}
	}
}

func TestCheckAddrOfOtherForms(t *testing.T) {
	t.Parallel()
	p := Policy{AllowHosts: []string{"a.example:80"}, Local: func() ([]netip.Addr, error) { return list("2a00:1::93.184.216.35"), nil }, NAT64: prefixes("2a00:1::/96")}
	for addr, want := range map[string]string{
		"::ffff:" + public:          "",
		"::ffff:10.0.0.1":           "address",
		"2606:4700:4700::1111%eth0": "address",
		"2a00:1::93.184.216.35":     "address",
		"2a00:1::" + public:         "",
	} {
		if err := p.CheckAddr("", netip.AddrPortFrom(netip.MustParseAddr(addr), 80)); rule(err) != want {
			t.Errorf("CheckAddr(%s) = %v, want refused by %q", addr, err, want)
		}
	}
	for _, addr := range append(list("fe80::1%eth0", "2606:4700:4700::1111%eth0"), netip.Addr{}) {
		if err := p.CheckAddr("a.example:80", netip.AddrPortFrom(addr, 80)); rule(err) != "address" {
			t.Errorf("CheckAddr(%s) of an allowed host = %v, want it refused", addr, err)
		}
	}
}

func TestOwnAddressesAreRefused(t *testing.T) {
	t.Parallel()
	own, err := interfaceAddrs()
	if err != nil || !slices.Contains(own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("interfaceAddrs() = %v, %v, want 127.0.0.1 among them", own, err)
	}
	to := netip.MustParseAddrPort(ownAddr + ":8080")
	for name, c := range map[string]struct {
		policy Policy
		want   string
	}{
		"own":                  {Policy{Local: ownAddrs}, "address"},
		"allowed by network":   {Policy{Local: ownAddrs, AllowNets: prefixes(ownAddr + "/32")}, ""},
		"allowed by host":      {Policy{Local: ownAddrs, AllowHosts: []string{ownAddr + ":8080"}}, ""},
		"allowed other port":   {Policy{Local: ownAddrs, AllowHosts: []string{ownAddr + ":8081"}}, "address"},
		"of another interface": {Policy{Local: func() ([]netip.Addr, error) { return nil, nil }}, ""},
	} {
		if _, err := c.policy.CheckURL("http://" + to.String() + "/"); rule(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: CheckURL = %v, want rule %q", name, err, c.want)
		}
	}
}

func TestOwnAddressesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	broken := errors.New("no descriptors left")
	c := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: &recorder{}, Policy: Policy{Local: func() ([]netip.Addr, error) { return nil, broken }}})
	if _, err := c.policy.CheckURL("http://" + public + "/"); !errors.Is(err, broken) || rule(err) != "" {
		t.Errorf("CheckURL = %v, want the error and no refusal", err)
	}
	if _, err := c.Post(t.Context(), Request{URL: parse(t, "http://a.example/")}); outcome(err) != OutcomeConnect {
		t.Errorf("Post = %v, want an outcome that is tried again", err)
	}
}

func TestRememberCachesAddressesAndKeepsThemAfterErrors(t *testing.T) {
	t.Parallel()
	calls, fail := 0, false
	source := func() ([]netip.Addr, error) {
		if calls++; fail {
			return nil, errors.New("broken")
		}
		return list(ownAddr), nil
	}
	long := remember(source, time.Hour)
	for range 3 {
		if got, err := long(); err != nil || len(got) != 1 {
			t.Errorf("addresses = %v, %v, want one", got, err)
		}
	}
	if calls != 1 {
		t.Errorf("asked %d times, want once", calls)
	}
	short := remember(source, 0)
	_, _ = short()
	fail = true
	if got, err := short(); err != nil || len(got) != 1 || calls != 3 {
		t.Errorf("addresses = %v, %v after %d calls, want what was known", got, err, calls)
	}
	if _, err := remember(source, time.Hour)(); err == nil {
		t.Error("no error although nothing was ever known")
	}
}
