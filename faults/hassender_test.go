//go:build faults

package faults_test

import (
	"net"
	"os/exec"
	"testing"
)

// The receiver excuses a request only if its sender has closed the connection, or was killed.
func TestReceiverRecognizesLostSenders(t *testing.T) {
	parallel(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accept := func() *delivery {
		t.Helper()
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &delivery{conn: conn}
	}
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := accept()
	if !d.hasSender() {
		t.Error("hasSender() = false for an open connection")
	}
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if d.hasSender() {
		t.Error("hasSender() = true after the sender closed the connection")
	}

	host, port, _ := net.SplitHostPort(ln.Addr().String())
	sender := exec.Command("bash", "-c", `exec 3<>"/dev/tcp/$0/$1" && exec sleep 600`, host, port)
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	d = accept()
	if !d.hasSender() {
		t.Error("hasSender() = false for a process that runs")
	}
	if err := sender.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sender.Wait()
	if d.hasSender() {
		t.Error("hasSender() = true after the sender was killed")
	}
	_ = d.conn.Close()
	if d.hasSender() {
		t.Error("hasSender() = true after the receiver closed the connection")
	}
}
