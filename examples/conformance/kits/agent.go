package main

import (
	"bytes"
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
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/backend/inmem"
)

// kitHost is the name of this machine on agent cards; see holdfast_compat.py.
const kitHost = "agent.example"

// withAgent calls f with the URL of an agent of a profile, without a slash at its end, as on the
// agent card. With a certificate the agent serves HTTPS.
func withAgent(ctx context.Context, profile string, cert *tls.Certificate, f func(url string) error) error {
	p, err := conformance.ProfileByName(profile)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s:%d", kitHost, ln.Addr().(*net.TCPAddr).Port)
	if cert != nil {
		url = strings.Replace(url, "http:", "https:", 1)
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12})
	}
	agent, err := p.Agent(holdfast.Config{Card: a2a.AgentCard{URL: url}, Store: inmem.New()})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- agent.Serve(serving, ln) }()
	err = f(url)
	stop()
	if stopped := <-served; err == nil {
		err = stopped
	}
	return err
}

// withGRPCAgent calls f with the path of the agent that speaks gRPC too, which is a module of its own.
func withGRPCAgent(ctx context.Context, f func(agent string) error) error {
	return inTempDir(func(dir string) error {
		agent := filepath.Join(dir, "agent")
		build := exec.CommandContext(ctx, "go", "build", "-o", agent, "./cmd/conformance")
		build.Dir = filepath.Join("server", "grpc")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the agent with gRPC: %w\n%s", err, output)
		}
		return f(agent)
	})
}

// withProcess calls f with the URL of a process of an agent, which it stops afterwards.
func withProcess(ctx context.Context, agent, profile string, f func(url string) error) error {
	addr, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	rpcs, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	log := new(bytes.Buffer)
	cmd := exec.CommandContext(ctx, agent, "-profile", profile, "-addr", addr, "-grpc", rpcs)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	err = waitReady(ctx, "http://"+addr)
	if err == nil {
		err = f("http://" + addr)
	}
	stopped := cmd.Process.Signal(os.Interrupt)
	if err := errors.Join(err, stopped, cmd.Wait()); err != nil {
		return fmt.Errorf("%w\n%s", err, log)
	}
	return nil
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// waitReady waits until an agent is ready.
func waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent is not ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// newCertificate returns a certificate for kitHost that signs itself, and writes it to a PEM file.
func newCertificate(file string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: kitHost}, DNSNames: []string{kitHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
