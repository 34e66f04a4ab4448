package main_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A server rejects new tasks after its data directory was deleted or replaced: they would be lost
// at the next start.
func TestServerRejectsTasksAfterItsDataWasDeleted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot remove open files")
	}
	for name, remove := range map[string]func(data string) error{
		"deleted":  os.RemoveAll,
		"replaced": func(data string) error { return errors.Join(os.Rename(data, data+"-old"), os.Mkdir(data, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			s := serve(t, "--addr", anyPort, "--data", data, "--agent", "echo")
			if code, _, stderr := run(t, "send", "--server", s.url, "first"); code != 0 {
				t.Fatalf("send = %d, %q", code, stderr)
			}
			if err := remove(data); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := run(t, "send", "--no-wait", "--server", s.url, "second")
			if code != 7 || !strings.Contains(stderr, "was deleted or replaced while it was in use") {
				t.Errorf("send after the loss = %d, %q, want 7 and the cause", code, stderr)
			}
			resp, err := http.Get(s.url + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("/readyz after the loss = %d %s, want 503", resp.StatusCode, text)
			}
			if name == "replaced" { // a new server may use the new directory
				next := serve(t, "--addr", anyPort, "--data", data, "--agent", "echo")
				if code, _, stderr := run(t, "send", "--server", next.url, "third"); code != 0 {
					t.Errorf("send to a new server = %d, %q", code, stderr)
				}
			}
			s.signal(t, syscall.SIGTERM)
			if s.wait(t); strings.Count(s.stderr.String(), "level=ERROR msg=\"database was deleted or replaced") != 1 {
				t.Errorf("log = %s\nwant one error about the loss", &s.stderr)
			}
		})
	}
}
