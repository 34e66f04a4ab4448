package did

import (
	"crypto/ed25519"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mr-tron/base58"

	"github.com/holdfast-dev/holdfast/a2a"
)

// The headers of a request that is signed like Bindu's. The time is in Unix seconds, the signature in base58.
const (
	HeaderDID       = "X-DID"
	HeaderTimestamp = "X-DID-Timestamp"
	HeaderSignature = "X-DID-Signature"
)

const (
	// Window is the maximum difference between the time of a request signature and the time of its verification.
	Window = 300 * time.Second
	// MaxSignedBody is the maximum size of the body of a signed request in bytes, as in Bindu.
	MaxSignedBody = 2 << 20
)

// The reasons in [a2a.Error.Data] for a request signature that is not valid. They are the reasons of Bindu.
const (
	ReasonMissingHeaders   = "missing_signature_headers"
	ReasonMismatch         = "did_mismatch"
	ReasonKeyUnavailable   = "public_key_unavailable"
	ReasonTooLarge         = "payload_too_large"
	ReasonInvalidSignature = "invalid_signature"
)

// Signed reports whether a request has a header of a request signature.
func Signed(h http.Header) bool {
	for _, name := range headers {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// headers are the names of the headers as net/http keeps them.
var headers = [3]string{http.CanonicalHeaderKey(HeaderDID), http.CanonicalHeaderKey(HeaderTimestamp), http.CanonicalHeaderKey(HeaderSignature)}

// Sign adds the headers of a signature over a body to a request, in the dialect of Bindu's agents. The body must be
// UTF-8 of at most [MaxSignedBody] bytes.
func Sign(h http.Header, did string, private ed25519.PrivateKey, body []byte, now time.Time) error {
	if err := Check(did); err != nil {
		return err
	}
	size, _, err := measureBody(body)
	if err != nil {
		return err
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	text := appendSigned(make([]byte, 0, size+signedSpace(did)), body, did, timestamp, true)
	h.Set(HeaderDID, did)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, base58.Encode(ed25519.Sign(private, text)))
	return nil
}

// RequestSignature is the signature of a request, not verified yet. It can be replayed until Time plus [Window].
type RequestSignature struct {
	DID  string
	Time time.Time
	// Value is the Ed25519 signature. Each valid signature has one value.
	Value [ed25519.SignatureSize]byte

	timestamp string
}

// ParseRequestSignature reads the signature of a request that arrived at now. want is the DID that must have signed, or ""
// for any. The error has one of the reasons of this package.
func ParseRequestSignature(h http.Header, want string, now time.Time) (*RequestSignature, error) {
	var values [len(headers)]string
	for i, name := range headers {
		if len(h[name]) != 1 || h[name][0] == "" {
			return nil, a2a.Refusef(a2a.CodeInvalidSignature, ReasonMissingHeaders, "the request must have exactly one %s, %s and %s", HeaderDID, HeaderTimestamp, HeaderSignature)
		}
		values[i] = h[name][0]
	}
	s := &RequestSignature{DID: values[0], timestamp: values[1]}
	if want != "" && s.DID != want || Check(s.DID) != nil {
		return nil, a2a.Refusef(a2a.CodeInvalidSignature, ReasonMismatch, "%s is not the DID of the caller", HeaderDID)
	}
	seconds, err := strconv.ParseInt(s.timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != s.timestamp {
		return nil, a2a.Refusef(a2a.CodeInvalidSignature, ReasonInvalidSignature, "%s must be a number of seconds", HeaderTimestamp)
	}
	s.Time = time.Unix(seconds, 0)
	if s.Time.Before(now.Add(-Window)) || s.Time.After(now.Add(Window)) {
		return nil, a2a.Refusef(a2a.CodeInvalidSignature, ReasonInvalidSignature, "%s differs by more than %s from the time of this server", HeaderTimestamp, Window)
	}
	if copy(s.Value[:], decodeBase58(values[2], len(s.Value))) == 0 {
		return nil, a2a.Refusef(a2a.CodeInvalidSignature, ReasonInvalidSignature, "%s must be base58 of %d bytes", HeaderSignature, len(s.Value))
	}
	return s, nil
}

// Verify returns an error unless an Ed25519 key that authenticates the DID has signed the body. It accepts the dialects
// of Bindu's agents and of its TypeScript callers. It copies the body once. The error has one of the reasons of this package.
func (s *RequestSignature) Verify(d *Document, body []byte) error {
	if d.ID != s.DID {
		return a2a.Refusef(a2a.CodeInvalidSignature, ReasonMismatch, "the key is not a key of %s", HeaderDID)
	}
	var keys []ed25519.PublicKey
	for _, k := range d.Keys {
		public, ok := k.Public.(ed25519.PublicKey)
		if ok && k.Authentication && !slices.ContainsFunc(keys, func(known ed25519.PublicKey) bool { return known.Equal(public) }) {
			keys = append(keys, public)
		}
	}
	if len(keys) == 0 {
		return a2a.Refusef(a2a.CodeInvalidSignature, ReasonKeyUnavailable, "the DID has no Ed25519 key for authentication")
	}
	size, same, err := measureBody(body)
	if err != nil {
		return err
	}
	text := appendSigned(make([]byte, 0, size+signedSpace(s.DID)), body, s.DID, s.timestamp, true)
	if verifyAny(keys, text, s.Value[:]) {
		return nil
	}
	if !same {
		text = appendSigned(text[:0], body, s.DID, s.timestamp, false) // not longer than the other dialect
		if verifyAny(keys, text, s.Value[:]) {
			return nil
		}
	}
	return a2a.Refusef(a2a.CodeInvalidSignature, ReasonInvalidSignature, "the signature does not match the request")
}

func verifyAny(keys []ed25519.PublicKey, text, signature []byte) bool {
	return slices.ContainsFunc(keys, func(public ed25519.PublicKey) bool { return ed25519.Verify(public, text, signature) })
}

// CheckSize returns an error if no signature covers a body of that many bytes.
func CheckSize(bytes int64) error {
	if bytes > MaxSignedBody {
		return a2a.Refusef(a2a.CodeTooLarge, ReasonTooLarge, "the body of a signed request must have at most %d bytes", MaxSignedBody)
	}
	return nil
}

// measureBody returns the size of a body as a JSON string in the dialect of Bindu's agents, and whether the body is the
// same in both dialects.
func measureBody(body []byte) (size int, same bool, err error) {
	if err := CheckSize(int64(len(body))); err != nil {
		return 0, false, err
	}
	size, same = escapedSize(body)
	if size < 0 {
		return 0, false, a2a.Refusef(a2a.CodeInvalidSignature, ReasonInvalidSignature, "the body of a signed request must be UTF-8")
	}
	return size, same, nil
}

// signedSpace returns an upper bound of the size of a signed text without its body.
func signedSpace(did string) int {
	return len(`{"body": "", "did": "", "timestamp": }`) + len(did) + 20
}

// appendSigned appends the text that a signature of a request covers: an object with sorted members and the separators of
// Python. A DID and a timestamp have the same form in JSON. See appendEscaped for escapeAll.
func appendSigned(dst, body []byte, did, timestamp string, escapeAll bool) []byte {
	dst = append(dst, `{"body": "`...)
	dst = appendEscaped(dst, body, escapeAll)
	dst = append(dst, `", "did": "`...)
	dst = append(dst, did...)
	dst = append(dst, `", "timestamp": `...)
	dst = append(dst, timestamp...)
	return append(dst, '}')
}
