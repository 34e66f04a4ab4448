package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeCertificate creates a certificate for 127.0.0.1 with the given serial number.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, certErr := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	keyBytes, keyErr := x509.MarshalECPrivateKey(key)
	err = errors.Join(certErr, keyErr,
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyBytes}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// SIGHUP reloads tokens and certificate. An invalid file changes nothing, and open connections
// stay open.
func TestSIGHUPReloadsTokensAndCertificate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGHUP")
	}
	dir := t.TempDir()
	tokens, cert, key := filepath.Join(dir, "tokens"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokens, "old=alice\n")
	writeCertificate(t, cert, key, 1)
	s := serve(t, "--addr", anyPort, "--storage", "memory", "--agent", "echo", "--tokens-file", tokens, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("url = %s, want https", s.url)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	request := func(token string, wantReused bool) int {
		t.Helper()
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if reused != wantReused {
			t.Errorf("connection reused = %t, want %t", reused, wantReused)
		}
		return resp.StatusCode
	}
	serial := func() int64 {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), transport.TLSClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if code := request("old", false); code != http.StatusOK || serial() != 1 {
		t.Fatalf("before the reload: %d with certificate %d, want 200 with 1", code, serial())
	}

	write(tokens, "new=alice\nother=bob\n")
	writeCertificate(t, cert, key, 2)
	s.signal(t, syscall.SIGHUP)
	s.waitForLog(t, "tokens reloaded", 1)
	s.waitForLog(t, "certificate reloaded", 1)
	if code := request("new", true); code != http.StatusOK {
		t.Errorf("a new token = %d, want 200", code)
	}
	if code := request("old", true); code != http.StatusUnauthorized {
		t.Errorf("a removed token = %d, want 401", code)
	}
	if serial() != 2 {
		t.Errorf("certificate = %d, want 2", serial())
	}

	for n, text := range []string{"s3cret\n", ""} { // an invalid line, and an empty file, which would disable authentication
		write(tokens, text)
		write(key, "s3cret")
		s.signal(t, syscall.SIGHUP)
		s.waitForLog(t, "tokens not reloaded; the previous tokens stay valid", n+1)
		s.waitForLog(t, "certificate not reloaded; the previous certificate stays in use", n+1)
		if code := request("new", true); code != http.StatusOK || serial() != 2 {
			t.Errorf("after a failed reload: %d with certificate %d, want 200 with 2", code, serial())
		}
	}
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t); code != 0 || strings.Contains(s.stderr.String(), "s3cret") {
		t.Errorf("code after SIGTERM = %d, want 0, and no secrets in the log:\n%s", code, &s.stderr)
	}
}
