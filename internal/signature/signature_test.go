package signature_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/signature"
)

// The example of the Standard Webhooks specification.
func TestSignatureOfTheSpecification(t *testing.T) {
	t.Parallel()
	key, err := signature.ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const id, timestamp, want = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	body := []byte(`{"test": 2432232314}`)
	if got := string(signature.NewMessage(id, timestamp, body).AppendHMAC(nil, key.Secret)); got != want {
		t.Errorf("AppendHMAC() = %s, want %s", got, want)
	}
	h := http.Header{}
	h.Set(signature.HeaderID, id)
	h.Set(signature.HeaderTimestamp, timestamp)
	h.Set(signature.HeaderSignature, "v1,AAAA "+want)
	at := time.Unix(1614265330, 0)
	if err := signature.Verify([]signature.Key{key}, h, body, at.Add(4*time.Minute), 5*time.Minute); err != nil {
		t.Errorf("Verify() = %v", err)
	}
	if err := signature.Verify([]signature.Key{key}, h, body, at.Add(6*time.Minute), 5*time.Minute); err == nil {
		t.Error("Verify() six minutes later = nil, want an error")
	}
	if err := signature.Verify(nil, h, body, at, time.Minute); err == nil {
		t.Error("Verify() without keys = nil, want an error")
	}
}

func TestParseKeyRejectsOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "whsec_", "whsec_!", "whpk_", "whpk_AAAA", "AAAA", "whsec_AAAA "} {
		if got, err := signature.ParseKey(text); err == nil {
			t.Errorf("ParseKey(%q) = %+v, want an error", text, got)
		}
	}
}
