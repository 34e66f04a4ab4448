//go:build services

package redis

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store/history"
)

func TestOpenReportsInvalidConfigs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "redis: URL must start with redis://"},
		{Config{URL: "http://h"}, "redis: URL must start with redis://"},
		{Config{URL: "redis://:secret@h:port"}, "redis: URL: invalid port"},
		{Config{URL: "redis://:secret@h/db"}, "redis: URL: invalid database number"},
		{Config{URL: "redis://:secret@h?colour=blue"}, "redis: URL: unexpected option: colour"},
		{Config{URL: "redis://:secret@h:1,h:2/3"}, "redis: URL: a cluster has no databases"},
		{Config{URL: "redis://h", Prefix: "a{b}", Timeout: -1}, "redis: Prefix is \"a{b}\", must not contain braces\nredis: Timeout is -1ns"},
	} {
		_, err := Open(t.Context(), test.cfg)
		if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%+v) = %v, want %q", test.cfg, err, test.want)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url      string
		addrs    string
		cluster  bool
		user     string
		password string
		db       int
		tls      bool
	}{
		{"redis://host", "host:6379", false, "", "", 0, false},
		{"rediss://user:p%40ss@host:7000/3", "host:7000", false, "user", "p@ss", 3, true},
		{"redis://:a@b,c@h1:1,h2:2,h3:3", "h1:1 h2:2 h3:3", true, "", "a@b,c", 0, false},
		{"redis://h1:1?addr=h2:2&addr=h3:3", "h1:1 h2:2 h3:3", true, "", "", 0, false},
		{"redis://h1:1?cluster=true", "h1:1", true, "", "", 0, false},
		{"redis://[::1]:1,[::2]:2", "[::1]:1 [::2]:2", true, "", "", 0, false},
	} {
		o, err := parseURL(test.url)
		if err != nil {
			t.Errorf("parseURL(%q) = %v", test.url, err)
			continue
		}
		if strings.Join(o.Addrs, " ") != test.addrs || o.IsClusterMode != test.cluster || o.Username != test.user || o.Password != test.password ||
			o.DB != test.db || (o.TLSConfig != nil) != test.tls {
			t.Errorf("parseURL(%q) = %+v", test.url, o)
		}
	}
}

// startOld starts a listener that answers INFO like an old server.
func startOld(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for lines := bufio.NewScanner(c); lines.Scan(); {
					info := "redis_version:6.0.16\r\nrole:master\r\n"
					switch strings.ToLower(lines.Text()) {
					case "info":
						fmt.Fprintf(c, "$%d\r\n%s\r\n", len(info), info)
					case "hello":
						fmt.Fprint(c, "-ERR unknown command\r\n")
					}
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String()
}

func TestOpenReportsUnsuitableServers(t *testing.T) {
	t.Parallel()
	secured := startServer(t, "--requirepass", "right-secret")
	replica := startServer(t, "--replicaof", "127.0.0.1 1")
	stopped := startServer(t)
	stopped.signal(syscall.SIGSTOP)
	evicting := startServer(t, "--maxmemory-policy", "allkeys-lru")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for _, test := range []struct{ url, want string }{
		{"redis://127.0.0.1:1", "redis: 127.0.0.1:1: the Redis server does not respond"},
		{"redis://127.0.0.1:1,127.0.0.1:2", "redis: 127.0.0.1:1,127.0.0.1:2: "},
		{"redis://no-such-host.invalid", "the Redis server does not respond"},
		{stopped.url(), "the Redis server does not respond"},
		{"rediss://" + silent.Addr().String(), "the Redis server does not respond"},
		{secured.url(), "the Redis server requires a password"},
		{"redis://:wrong-secret@" + secured.addr(), "the Redis server rejects the user or the password"},
		{evicting.url(), "the server evicts keys (maxmemory-policy allkeys-lru), so that data could be lost: set maxmemory-policy noeviction"},
		{replica.url(), "the server is a replica: connect to its master"},
		{startOld(t), "the server has version 6.0.16, want at least 6.2"},
	} {
		began := time.Now()
		_, err := Open(t.Context(), Config{URL: test.url, Timeout: 3 * time.Second})
		if a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%s) = %v, want %q", test.url, err, test.want)
		}
		if took := time.Since(began); took > await.Limit/2 {
			t.Errorf("Open(%s) took %v, want about 3 s at most", test.url, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{URL: secured.url()}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open() with a canceled context = %v", err)
	}
	s := open(t, Config{URL: "redis://:right-secret@" + secured.addr()})
	must(t, s.Ping(t.Context()))
	must(t, s.Close())
	if err := s.Ping(t.Context()); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Ping() of a closed store = %v, want an error with code unavailable", err)
	}
	if _, err := s.History().Count(t.Context(), testKey); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Count() of a closed store = %v, want an error with code unavailable", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	cert, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	port := freePort(t)
	startServer(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", keyFile, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	url := fmt.Sprint("rediss://127.0.0.1:", port)
	if _, err := Open(t.Context(), Config{URL: url, Timeout: time.Minute}); a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Open() of a server with an unknown certificate = %v, want an error about it", err)
	}
	roots := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	roots.AddCert(parsed)
	s := open(t, Config{URL: url, TLS: &tls.Config{RootCAs: roots}})
	_, err = s.History().Append(t.Context(), testKey, history.AppendParams{Messages: text("a")})
	must(t, err)
}

// A store that is opened with the address of one node finds the others.
func TestOpenFindsCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := open(t, Config{URL: c[1].url()})
	for i := range 20 {
		k := testKey
		k.Session = strconv.Itoa(i)
		_, err := s.History().Append(t.Context(), k, history.AppendParams{Messages: text("a")})
		must(t, err)
	}
	if _, err := Open(t.Context(), Config{URL: c[0].url() + "/1"}); err == nil {
		t.Error("Open() of a database of a cluster succeeded")
	}
}

// While a node of a cluster is down, calls fail in time; afterwards they work.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := open(t, Config{URL: clusterURL(c), Timeout: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	work := func() (failed int) {
		for i := range 9 {
			k := testKey
			k.Session = strconv.Itoa(i)
			if _, err := s.History().Append(ctx, k, history.AppendParams{Messages: text("a")}); err != nil {
				failed++
				if a2a.CodeOf(err) != a2a.CodeUnavailable || ctx.Err() != nil {
					t.Errorf("Append() = %v, context %v, want an error with code unavailable before the context ends", err, ctx.Err())
				}
			}
		}
		return failed
	}
	await.True(t, "appends succeed", func() bool { return work() == 0 })
	c[2].kill()
	if n := work(); n == 0 {
		t.Error("no append failed while a node was down")
	}
	c[2].start()
	await.True(t, "appends succeed after the node is up", func() bool { return work() == 0 })
}

// A slot moves to another node while a session in it is written. No append fails or is stored twice.
func TestMovedSlot(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := open(t, Config{URL: clusterURL(c)})
	keys := s.history.sessionKeys(testKey)
	first := c[0].client(t)
	slot := first.ClusterKeySlot(t.Context(), keys[0]).Val()
	at := int(slot) * len(c) / 16_384
	if slot < int64(at*16_384/len(c)) {
		at--
	}
	from, to := c[at].client(t), c[(at+1)%len(c)].client(t)
	ids := make([]string, 2)
	for i, node := range []*goredis.Client{from, to} {
		id, err := node.Do(t.Context(), "cluster", "myid").Text()
		must(t, err)
		ids[i] = id
	}
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			if _, err := s.History().Append(bg, testKey, history.AppendParams{Messages: text(strconv.Itoa(n))}); err != nil {
				t.Errorf("Append() while a slot moves = %v", err)
			}
		}
	}()
	time.Sleep(100 * time.Millisecond)
	must(t, to.Do(t.Context(), "cluster", "setslot", slot, "importing", ids[0]).Err())
	must(t, from.Do(t.Context(), "cluster", "setslot", slot, "migrating", ids[1]).Err())
	time.Sleep(50 * time.Millisecond)
	for _, key := range from.ClusterGetKeysInSlot(t.Context(), int(slot), 100).Val() { // one by one, so that the keys are apart
		must(t, from.Do(t.Context(), "migrate", "127.0.0.1", c[(at+1)%len(c)].port, key, 0, 5000).Err())
		time.Sleep(20 * time.Millisecond)
	}
	for _, node := range []*goredis.Client{to, from} {
		must(t, node.Do(t.Context(), "cluster", "setslot", slot, "node", ids[1]).Err())
	}
	time.Sleep(200 * time.Millisecond)
	close(stop)
	n := <-done
	bodies := all(t, s.History(), testKey)
	for i, body := range bodies {
		if body != fmt.Sprintf("%q", strconv.Itoa(i)) {
			t.Fatalf("message %d = %s, want %d", i+1, body, i)
		}
	}
	if len(bodies) != n || to.Exists(t.Context(), keys...).Val() != 2 {
		t.Errorf("%d messages are stored, want %d, on the other node", len(bodies), n)
	}
}
