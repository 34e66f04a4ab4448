package main_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// chunksInSteps is a program that writes a chunk within each of ten steps and a line between
// them. In its first attempt it hangs in the sixth step and creates the file $1.
const chunksInSteps = `read -r turn
i=0
while [ $i -lt 10 ]; do
  echo '{"type":"artifact","name":"log","text":"'$i' "}'
  echo '{"type":"step","name":"s'$i'"}'
  read -r answer
  case $answer in
  *'"done":true'*) ;;
  *)
    echo '{"type":"artifact","name":"chunks","text":"chunk'$i' "}'
    [ $i-$HOLDFAST_ATTEMPT = 5-1 ] && { echo > $1; exec sleep 60; }
    echo '{"type":"step_done","name":"s'$i'"}'
    read -r stored ;;
  esac
  i=$((i+1))
done
echo '{"type":"artifact","name":"chunks","text":"end"}'
echo '{"type":"result","text":"well done"}'
`

// If the server is killed in the middle, the program's artifacts are the same as without
// interruption.
func TestArtifactsOfAProgramSurviveKillAndRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, reached := filepath.Join(dir, "program.sh"), filepath.Join(dir, "reached")
	if err := os.WriteFile(program, []byte(chunksInSteps), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--addr", anyPort, "--data", filepath.Join(dir, "data"), "--exec", "sh " + program + " " + reached}
	s := serve(t, args...)
	code, id, stderr := run(t, "send", "--no-wait", "--server", s.url, "x")
	if code != 0 {
		t.Fatalf("send = %d, %q", code, stderr)
	}
	id = strings.TrimSpace(id)
	await.True(t, "the program reaches its sixth step", func() bool {
		_, err := os.Stat(reached)
		return !errors.Is(err, fs.ErrNotExist)
	})
	s.signal(t, syscall.SIGKILL)
	s.wait(t)

	s = serve(t, args...)
	if code, out, errs := run(t, "tasks", "follow", "--server", s.url, id); code != 0 {
		t.Fatalf("tasks follow = %d, %q, %q", code, out, errs)
	}
	_, out, errs := run(t, "tasks", "get", "--json", "--server", s.url, id)
	var task struct {
		Status    struct{ State string }
		Artifacts []struct {
			Name  string
			Parts []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(out), &task); err != nil {
		t.Fatalf("tasks get = %q, %q: %v", out, errs, err)
	}
	got := map[string]string{"state": task.Status.State}
	for _, a := range task.Artifacts {
		for _, p := range a.Parts {
			got[a.Name] += p.Text
		}
	}
	want := map[string]string{
		"state": "completed", "log": "0 1 2 3 4 5 6 7 8 9 ",
		"chunks": "chunk0 chunk1 chunk2 chunk3 chunk4 chunk5 chunk6 chunk7 chunk8 chunk9 end",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(task.Artifacts) != 2 {
		t.Errorf("the task after kill -9 and a restart has %d artifacts (-want +got):\n%s", len(task.Artifacts), diff)
	}
}
