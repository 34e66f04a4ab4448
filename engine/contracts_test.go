package engine

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
)

func TestTranscriptTTLIsTheAgeOfTranscripts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		retention Retention
		want      time.Duration
	}{
		{nil, defaultAge},
		{Retention{RetainState: time.Hour}, defaultAge},
		{Retention{RetainTranscripts: time.Hour}, time.Hour},
		{Retention{RetainTranscripts: 0}, history.NoTTL},
	} {
		if got := (&Config{Retention: test.retention}).transcriptTTL(); got != test.want {
			t.Errorf("transcriptTTL() with %v = %v, want %v", test.retention, got, test.want)
		}
	}
}
