package safehttp

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	got, err := ParsePolicy(PolicyParams{
		AllowNets:    []string{"127.0.0.0/8", " 10.1.2.3", "fd00::/8", "fd00:ec2::254"},
		AllowHosts:   []string{"localhost:8888", "Receiver.Internal.:80", "10.0.0.1:22", "[::1]:81", "[::ffff:10.0.0.2]:443"},
		NAT64:        []string{"64:ff9b::/96"},
		RequireHTTPS: true,
	})
	want := Policy{
		AllowNets:    prefixes("127.0.0.0/8", "10.1.2.3/32", "fd00::/8", "fd00:ec2::254/128"),
		AllowHosts:   []string{"localhost:8888", "receiver.internal:80", "10.0.0.1:22", "[::1]:81", "10.0.0.2:443"},
		NAT64:        prefixes("64:ff9b::/96"),
		RequireHTTPS: true,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParsePolicy = %+v, %v, want %+v", got, err, want)
	}
	if err := got.validate(); err != nil {
		t.Errorf("validate: %v", err)
	}
}

func TestParsePolicyNamesInvalidSettings(t *testing.T) {
	t.Parallel()
	_, err := ParsePolicy(PolicyParams{AllowNets: []string{"10.0.0.0/8", "net-one"}, AllowHosts: []string{"host-two"}, NAT64: []string{"three"}})
	for _, want := range []string{"net-one", "host-two", "three"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePolicy = %v, want %q named", err, want)
		}
	}
	for _, bad := range []string{"", "10.0.0.0/33", "10.1.2.3/16", "localhost", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "fe80::1%eth0", "10.0.0.0/8,127.0.0.0/8"} {
		if p, err := ParsePolicy(PolicyParams{AllowNets: []string{bad}}); err == nil {
			t.Errorf("ParsePolicy(network %q) = %v, want an error", bad, p.AllowNets)
		}
	}
	for _, bad := range []string{"", "localhost", ":80", "localhost:", "localhost:0", "localhost:65536", "localhost:http", "a b:80", "127.1:80", "0x7f.1:80", "::1:80", "[fe80::1%eth0]:80", "http://localhost:80", "*:80"} {
		if p, err := ParsePolicy(PolicyParams{AllowHosts: []string{bad}}); err == nil {
			t.Errorf("ParsePolicy(host %q) = %v, want an error", bad, p.AllowHosts)
		}
	}
	for _, bad := range []string{"10.0.0.0/8", "64:ff9b::/97", "64:ff9b::1/96", "64:ff9b::1"} {
		if p, err := ParsePolicy(PolicyParams{NAT64: []string{bad}}); err == nil {
			t.Errorf("ParsePolicy(NAT64 %q) = %v, want an error", bad, p.NAT64)
		}
	}
}

func TestNewRejectsInvalidPolicies(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Policy{
		"host in upper case":  {AllowHosts: []string{"Localhost:80"}},
		"host without a port": {AllowHosts: []string{"localhost"}},
		"bits beyond":         {AllowNets: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("10.1.2.3"), 8)}},
		"zero prefix":         {AllowNets: []netip.Prefix{{}}},
		"NAT64 of 33 bits":    {NAT64: prefixes("2001:db8::/33")},
	} {
		if _, err := New(ClientConfig{Policy: p}); err == nil {
			t.Errorf("%s: New gave no error", name)
		}
	}
}

func TestAllowlist(t *testing.T) {
	t.Parallel()
	nets := func(n ...string) Policy { return Policy{AllowNets: prefixes(n...)} }
	hosts := func(h ...string) Policy { return Policy{AllowHosts: h} }
	for _, c := range []struct {
		name, url string
		policy    Policy
		answer    string // of the resolver
		want      string // the rule that refuses, or "" if it is dialed
	}{
		{"network", "http://10.1.2.3/", nets("10.1.0.0/16"), "", ""},
		{"other network", "http://10.2.2.3/", nets("10.1.0.0/16"), "", "address"},
		{"network, mapped literal", "http://[::ffff:10.1.2.3]/", nets("10.1.0.0/16"), "", ""},
		{"network lifts ports", "http://10.1.2.3:22/", nets("10.1.0.0/16"), "", ""},
		{"network lifts ports of names", "http://a.example:22/", nets("10.1.0.0/16"), "10.1.2.3", ""},
		{"not those of other addresses", "http://a.example:22/", nets("10.1.0.0/16"), public, "port"},
		{"network does not lift names", "http://a.internal/", nets("10.1.0.0/16"), "10.1.2.3", "host"},
		{"network does not lift grammar", "http://167837955/", nets("10.0.0.0/8"), "10.1.2.3", "host"},
		{"network does not lift userinfo", "http://x@10.1.2.3/", nets("10.0.0.0/8"), "", "userinfo"},
		{"network does not lift schemes", "ftp://10.1.2.3/", nets("10.0.0.0/8"), "", "scheme"},
		{"public stays allowed", "http://a.example/", nets("10.0.0.0/8"), public, ""},
		{"host", "http://localhost:8888/", hosts("localhost:8888"), "127.0.0.1", ""},
		{"host in another spelling", "http://LocalHost.:8888/", hosts("localhost:8888"), "127.0.0.1", ""},
		{"host, other port", "http://localhost:8889/", hosts("localhost:8888"), "127.0.0.1", "host"},
		{"host, default port", "http://receiver/", hosts("receiver:80"), "10.0.0.1", ""},
		{"host, default port of https", "https://receiver/", hosts("receiver:80"), "10.0.0.1", "host"},
		{"host with any port", "http://receiver:22/", hosts("receiver:22"), "10.0.0.1", ""},
		{"host that is a literal", "http://[0:0::1]:81/", hosts("[::1]:81"), "", ""},
		{"name at a literal's address", "http://a.example:8081/", hosts("[::1]:8081"), "::1", "address"},
		{"https is required all the same", "http://localhost:8888/", Policy{AllowHosts: []string{"localhost:8888"}, RequireHTTPS: true}, "127.0.0.1", "scheme"},
		{"metadata by network", "http://169.254.169.254/", nets("169.254.0.0/16"), "", "address"},
		{"metadata by everything", "http://[fd00:ec2::254]/", nets("::/0", "0.0.0.0/0"), "", "address"},
		{"Azure by everything", "http://168.63.129.16/", nets("0.0.0.0/0"), "", "address"},
		{"Alibaba by everything", "http://100.100.100.200/", nets("100.64.0.0/10"), "", "address"},
		{"metadata by 31 bits", "http://169.254.169.254/", nets("169.254.169.254/31"), "", "address"},
		{"metadata by name", "http://meta.example/", hosts("meta.example:80"), "169.254.169.254", "address"},
		{"metadata by host", "http://169.254.169.254/", hosts("169.254.169.254:80"), "", "address"},
		{"metadata alone", "http://169.254.169.254/", nets("169.254.169.254/32"), "", ""},
		{"metadata alone, IPv6", "http://[fd00:ec2::254]/", nets("fd00:ec2::254/128"), "", ""},
		{"metadata by name and alone", "http://meta.example/", nets("169.254.169.254/32"), "169.254.169.254", ""},
		{"metadata mapped", "http://[::ffff:169.254.169.254]/", nets("0.0.0.0/0", "::/0"), "", "address"},
		{"metadata compatible", "http://[::169.254.169.254]/", nets("::/0"), "", "address"},
		{"metadata translated", "http://[::ffff:0:169.254.169.254]/", nets("::/0"), "", "address"},
		{"metadata by NAT64", "http://[64:ff9b::169.254.169.254]/", nets("64:ff9b::/96"), "", "address"},
		{"metadata by local NAT64", "http://[64:ff9b:1::169.254.169.254]/", nets("::/0"), "", "address"},
		{"metadata by 6to4", "http://[2002:a9fe:a9fe::]/", nets("::/0"), "", "address"},
		{"metadata by Teredo", "http://[2001:0:4136:e378:8000:63bf:5601:5601]/", nets("::/0"), "", "address"},
		{"metadata by the site's NAT64", "http://[2a00:1::a9fe:a9fe]/", Policy{NAT64: prefixes("2a00:1::/96"), AllowNets: prefixes("0.0.0.0/0", "::/0")}, "", "address"},
		{"network by the site's NAT64", "http://[2a00:1::10.1.2.3]/", Policy{NAT64: prefixes("2a00:1::/96"), AllowNets: prefixes("10.0.0.0/8")}, "", ""},
		{"other by NAT64", "http://[64:ff9b::10.1.2.3]/", nets("64:ff9b::/96"), "", ""},
	} {
		names, dialer := fixed(), &recorder{}
		if c.answer != "" {
			names = fixed(c.answer)
		}
		if strings.HasSuffix(c.name, "31 bits") {
			c.policy.AllowNets[0] = c.policy.AllowNets[0].Masked()
		}
		client := newClient(t, ClientConfig{Policy: c.policy, Resolver: names, Dialer: dialer})
		_, err := client.Post(t.Context(), Request{URL: parse(t, c.url)})
		if rule(err) != c.want || len(dialer.seen()) == 0 != (c.want != "") {
			t.Errorf("%s: Post(%s) = %v with connects to %v, want refused by %q", c.name, c.url, err, dialer.seen(), c.want)
		}
		if err := client.Check(t.Context(), c.url); rule(err) != c.want {
			t.Errorf("%s: Check(%s) = %v, want refused by %q", c.name, c.url, err, c.want)
		}
	}
}

func TestSpecialDomainsAreRefusedWithTheirSubdomains(t *testing.T) {
	t.Parallel()
	var p Policy
	for _, name := range append(slices.Clone(suffixesRefused), namesRefused...) {
		for _, host := range []string{name, name + ".", strings.ToUpper(name), name + ":8080"} {
			if _, err := p.CheckURL("http://" + host + "/"); rule(err) != "host" {
				t.Errorf("CheckURL(http://%s/) = %v, want the host refused", host, err)
			}
		}
	}
	for _, name := range suffixesRefused {
		for _, host := range []string{"a." + name, "a.b." + name + "."} {
			if _, err := p.CheckURL("http://" + host + "/"); rule(err) != "host" {
				t.Errorf("CheckURL(http://%s/) = %v, want the host refused", host, err)
			}
		}
		if _, err := p.CheckURL("http://a" + name + ".example/"); err != nil {
			t.Errorf("CheckURL(http://a%s.example/): %v", name, err)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for raw, want := range map[string]string{
		"": "scheme",
		"http://a.example/" + strings.Repeat("x", 2031):                   "",
		"http://a.example/" + strings.Repeat("x", 2032):                   "length",
		"http://a.example/" + strings.Repeat("`", 700):                    "length", // with %60
		"http://" + long + ".example/":                                    "",
		"http://a" + long + ".example/":                                   "host",
		"http://" + strings.Repeat(long+".", 3) + long[:53] + ".example/": "",
		"http://" + strings.Repeat(long+".", 3) + long[:54] + ".example/": "host",
		"http://a.example\t/":                                             "characters",
		"http://a.example/\x7f":                                           "characters",
		"http://a.example/ü":                                              "characters",
		"http://a.example/%":                                              "syntax",
		"HTTP://A.Example":                                                "",
		"http://a.example?q":                                              "",
		"http://@a.example/":                                              "userinfo",
		"http://:@a.example/":                                             "userinfo",
		"http://a.example/#":                                              "fragment",
		"http://a.example/%23":                                            "",
		"http://a.example/@x":                                             "",
		"http://a.example:/":                                              "port",
		"http://a.example:080/":                                           "port",
		"http://a.example:65536/":                                         "port",
		"http://a.example:65535/":                                         "",
		"http://a.example:+80/":                                           "syntax",
		"http://a_b.c--d.example/":                                        "",
		"http://-a.example/":                                              "host",
		"http://a-.example/":                                              "host",
		"http://a..example/":                                              "host",
		"http://.a.example/":                                              "host",
		"http://a.example../":                                             "host",
		"http://a.example./":                                              "",
		"http://./":                                                       "host",
		"http://a%41.example/":                                            "syntax",
		"http://%E2%91%A0.example/":                                       "host",
		"http://a*b.example/":                                             "host",
		"http://a.0x/":                                                    "host",
		"http://a.0xfg/":                                                  "",
		"http://a.1./":                                                    "host",
		"http://a.1b/":                                                    "",
		"http://1.1.1.1./":                                                "host",
		"http://1.1.1.1:443/":                                             "",
		"http://[::ffff:1.1.1.1]/":                                        "",
		"http://[1.1.1.1]/":                                               "syntax",
		"http://xn--bcher-kva.example/":                                   "",
		"http://example/":                                                 "host",
		"http://a.localhost/":                                             "host",
		"http://localhost.localdomain/":                                   "host",
		"http://a.local/":                                                 "host",
		"http://a.internal./":                                             "host",
		"http://a.intranet/":                                              "host",
		"http://a.corp/":                                                  "host",
		"http://a.lan/":                                                   "host",
		"http://a.home/":                                                  "host",
		"http://a.private/":                                               "host",
		"http://a.svc/":                                                   "host",
		"http://a.svc.cluster/":                                           "host",
		"http://a.home.arpa/":                                             "host",
		"http://in-addr.arpa/":                                            "",
		"http://a.onion/":                                                 "host",
		"http://a.invalid/":                                               "host",
		"http://METADATA.goog/":                                           "host",
		"http://metadata.tencentyun.com/":                                 "host",
		"http://notmetadata.goog/":                                        "",
		"http://thelocal.example/":                                        "",
		"http://local.example/":                                           "",
		`http://a.example/\x`:                                             "characters",
		"http://[fe80::1%25lo]/":                                          "host",
		"ws://a.example/":                                                 "scheme",
		"https:a.example/":                                                "host",
		"https:/a.example/":                                               "host",
		"//a.example/":                                                    "scheme",
	} {
		var p Policy
		u, err := p.CheckURL(raw)
		if rule(err) != want || (err == nil) != (want == "") {
			t.Errorf("CheckURL(%.100q) = %v, %v, want refused by %q", raw, u, err, want)
		}
	}
	var p Policy
	if u, err := p.CheckURL("HTTPS://EXAMPLE.com.:8443/Hook?A=b"); err != nil || u.String() != "https://example.com:8443/Hook?A=b" {
		t.Errorf("CheckURL = %v, %v, want the host in lower case without its final dot", u, err)
	}
	p.RequireHTTPS = true
	if _, err := p.CheckURL("http://a.example/"); rule(err) != "scheme" {
		t.Errorf("CheckURL = %v, want http refused", err)
	}
	if _, err := p.CheckURL("https://a.example/"); err != nil {
		t.Errorf("CheckURL: %v", err)
	}
}
