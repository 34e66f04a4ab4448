package await_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
)

func TestSuccessWaitsForACheckWithoutError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ready := time.Now().Add(time.Minute)
		await.Success(t, func() error {
			if time.Now().Before(ready) {
				return errors.New("too early")
			}
			return nil
		})
		if late := time.Since(ready); late < 0 || late > 20*time.Millisecond {
			t.Errorf("Success() returned %s after the check succeeds, want at most 20ms", late)
		}
	})
}

// recorder records the failure of a test.
type recorder struct{ failure string }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestTrueFailsAfterTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		started := time.Now()
		go await.True(&r, "the agent is idle", func() bool { return false })
		synctest.Wait()
		time.Sleep(await.Limit + time.Second)
		synctest.Wait()
		if want := "not within 5m0s: the agent is idle"; r.failure != want {
			t.Errorf("failure after %s = %q, want %q", time.Since(started), r.failure, want)
		}
	})
}
