package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk03 "github.com/a2aproject/a2a-go/a2a"
	client03 "github.com/a2aproject/a2a-go/a2aclient"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// child selects the command in a process of the test binary.
const child = "HOLDFAST_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		_ = os.Unsetenv(child)
		main()
	}
	os.Exit(m.Run())
}

// process is a running server.
type process struct {
	cmd       *exec.Cmd
	url, grpc string
	done      chan error
}

// start starts a server and waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"serve", "--json", "--addr", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = []string{child + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan error, 1)}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var b struct{ URL, GRPC string }
	if err != nil || json.Unmarshal(line, &b) != nil || b.GRPC == "" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the server printed %q (%v), want its addresses; log:\n%s", line, err, log.String())
	}
	p.url, p.grpc = b.URL, b.GRPC
	go func() {
		_, _ = io.Copy(io.Discard, out)
		p.done <- cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	err, ok := <-p.done
	if ok {
		close(p.done)
	}
	_ = err
}

func (p *process) dial(t *testing.T, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(p.grpc, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func hello() *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hello")), Config: &sdk.SendMessageConfig{}}
}

func TestTasksResumeAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "agent.sh")
	text := fmt.Sprintf("while [ ! -e %s/go ]; do sleep 0.05; done\necho resumed\n", dir)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--data", filepath.Join(dir, "data"), "--exec", "sh " + script, "--exec-plain"}
	first := start(t, args...)
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var task *sdk.Task
	seen := 0
	for event, err := range grpcv1.NewGRPCTransport(first.dial(t)).SendStreamingMessage(ctx, nil, hello()) {
		if err != nil {
			if task == nil {
				t.Fatal(err)
			}
			break // the server was killed
		}
		seen++
		if task == nil {
			task = event.(*sdk.Task)
			first.kill()
		}
	}
	second := start(t, args...)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var states []sdk.TaskState
	resume := a2aclient.ServiceParams{"last-event-id": {fmt.Sprint(seen)}}
	for event, err := range grpcv1.NewGRPCTransport(second.dial(t)).SubscribeToTask(ctx, resume, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if update, ok := event.(*sdk.TaskStatusUpdateEvent); ok {
			states = append(states, update.Status.State)
		}
	}
	if len(states) == 0 || states[len(states)-1] != sdk.TaskStateCompleted {
		t.Errorf("states after the restart = %v, want them to end with completed", states)
	}
	old, err := client03.NewGRPCTransport(second.dial(t)).GetTask(ctx, &sdk03.TaskQueryParams{ID: sdk03.TaskID(task.ID)})
	if err != nil || old.Status.State != sdk03.TaskStateCompleted || len(old.Artifacts) != 1 {
		t.Errorf("GetTask of A2A 0.3 = %+v, %v, want the completed task", old, err)
	}
}

func TestClientsFindTheGRPCServerOnTheCard(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir(), "--agent", "echo")
	ctx := t.Context()
	card, err := agentcard.DefaultResolver.Resolve(ctx, p.url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), grpcv1.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatalf("client for %+v: %v", card.SupportedInterfaces, err)
	}
	result, err := c.SendMessage(ctx, hello())
	if task, ok := result.(*sdk.Task); err != nil || !ok || task.Status.State != sdk.TaskStateCompleted {
		t.Errorf("SendMessage = %+v, %v, want a completed task", result, err)
	}
	resp, err := http.Get(p.url + "/.well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var old sdk03.AgentCard
	if err := json.NewDecoder(resp.Body).Decode(&old); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, i := range old.AdditionalInterfaces {
		if i.Transport == sdk03.TransportProtocolGRPC && i.URL == p.grpc {
			found++
		}
	}
	if found != 1 {
		t.Errorf("additionalInterfaces = %+v, want one for gRPC at %s", old.AdditionalInterfaces, p.grpc)
	}
}

func TestCardListsThePublicAddressOfTheGRPCServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string // "" is none; PORT is the port of the listener
	}{
		{[]string{"--grpc-listen", "0.0.0.0:0"}, ""},
		{[]string{"--grpc-listen", "0.0.0.0:0", "--url", "https://agent.example.com/a2a"}, "agent.example.com:PORT"},
		{[]string{"--grpc-listen", "0.0.0.0:0", "--url", "https://agent.example.com/a2a", "--grpc-url", "rpc.example.com:443"}, "rpc.example.com:443"},
	} {
		p := start(t, append([]string{"--data", t.TempDir(), "--agent", "echo"}, test.args...)...)
		card, err := agentcard.DefaultResolver.Resolve(t.Context(), p.url)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(p.grpc)
		got := ""
		for _, i := range card.SupportedInterfaces {
			if i.ProtocolBinding == sdk.TransportProtocolGRPC && i.ProtocolVersion == "1.0" {
				got = i.URL
			}
		}
		if want := strings.ReplaceAll(test.want, "PORT", port); got != want {
			t.Errorf("%v: the card lists %q, want %q", test.args, got, want)
		}
	}
}

func TestTokensAndTLSOfTheServerApply(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	p := start(t, "--data", t.TempDir(), "--agent", "echo", "--token", "secret=alice", "--token", "other=bob", "--tls-cert", certFile, "--tls-key", keyFile)
	conn := p.dial(t, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))
	c, ctx := grpcv1.NewGRPCTransport(conn), t.Context()
	alice, bob := a2aclient.ServiceParams{"authorization": {"Bearer secret"}}, a2aclient.ServiceParams{"authorization": {"Bearer other"}}
	result, err := c.SendMessage(ctx, alice, hello())
	if err != nil {
		t.Fatal(err)
	}
	task := result.(*sdk.Task)
	if _, err := c.GetTask(ctx, bob, &sdk.GetTaskRequest{ID: task.ID}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("GetTask of another owner = %v, want not found", err)
	}
	for _, params := range []a2aclient.ServiceParams{nil, {"authorization": {"Bearer wrong"}}} {
		if _, err := c.GetTask(ctx, params, &sdk.GetTaskRequest{ID: task.ID}); err == nil || !strings.Contains(err.Error(), "authenticat") && !strings.Contains(err.Error(), "credentials") {
			t.Errorf("GetTask with %v = %v, want unauthenticated", params, err)
		}
	}
	plain := p.dial(t)
	if _, err := healthpb.NewHealthClient(plain).Check(ctx, new(healthpb.HealthCheckRequest)); status.Code(err) != codes.Unavailable {
		t.Errorf("health check without TLS = %v, want unavailable", err)
	}
	if h, err := healthpb.NewHealthClient(conn).Check(ctx, new(healthpb.HealthCheckRequest)); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health check = %v, %v, want serving without a token", h, err)
	}
}

func TestSignalStopsBothServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "--data", filepath.Join(dir, "data"), "--exec", "sleep 60", "--exec-plain", "--stop-grace", "100ms")
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var last error
	for event, err := range grpcv1.NewGRPCTransport(p.dial(t)).SendStreamingMessage(ctx, nil, hello()) {
		if _, ok := event.(*sdk.Task); ok {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}
		last = err
	}
	if ctx.Err() != nil {
		t.Errorf("the stream did not end with the server: %v", last)
	}
	if err := <-p.done; err != nil {
		t.Errorf("the server ended with %v, want success", err)
	}
	close(p.done)
}

func TestInvalidAddressesAreReported(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "config", "--check", "--grpc-listen", "nonsense", "--grpc-url", "host:99999")
	cmd.Env = []string{child + "=1"}
	out, err := cmd.CombinedOutput()
	for _, want := range []string{`--grpc-listen: want HOST:PORT such as 127.0.0.1:3773, but got "nonsense"`, `--grpc-url: want a port from 0 to 65535, but got "99999"`} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("config --check = %v, %s, want %s", err, out, want)
		}
	}
}

// certificate returns the files of a certificate for 127.0.0.1 and its key, and a pool with it.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile, roots = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	roots.AppendCertsFromPEM(text)
	for name, data := range map[string][]byte{certFile: text, keyFile: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: rawKey})} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, roots
}
