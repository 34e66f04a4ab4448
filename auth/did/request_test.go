package did_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mr-tron/base58"

	"github.com/holdfast-dev/holdfast/auth/did"
)

// signed returns the headers of a signed request.
func signed(id, timestamp, signature string) http.Header {
	h := http.Header{}
	h.Set(did.HeaderDID, id)
	h.Set(did.HeaderTimestamp, timestamp)
	h.Set(did.HeaderSignature, signature)
	return h
}

func keyDocument(t testing.TB, id string, public ed25519.PublicKey) *did.Document {
	t.Helper()
	d, err := did.KeyDocument(id, public)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// verify parses and verifies the signature of a request.
func verify(h http.Header, want string, now time.Time, d *did.Document, body []byte) error {
	s, err := did.ParseRequestSignature(h, want, now)
	if err != nil {
		return err
	}
	return s.Verify(d, body)
}

// The vectors V1 of the facts, in both dialects.
func TestRequestSignaturesOfBindu(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ id, timestamp, body, python, typeScript string }{
		{"did:bindu:test", "1000", `{"test": "value"}`, "3SfU4VPTHLbzZzCn17ZqU6y2tnzHQbdo2nnXQr6XZXk34XgyzwSKRrCYEWRmmGXrV39mdkyhTsy5oasfTpNuqyM2", ""},
		{
			"did:bindu:a_at_x_com:bot:1", "1700000000", `{"t":"é€ 😀"}`,
			"393rRp4Wz5Lw2xMPDc311aUU5yr7yPRB9Lih8KVjDWFDo5KufUSSmgyehWQfMxA7SYTdKGkaBCQhTWp5hMwH1Ews", "5m6cyyCmfkoC8GxY4qSgamE7k7hFufkB2QqWcXqzk2qUb41k7N96X23Xrf7FWJL3vo6f3A5o96B3pBjKb8zMrH7a",
		},
	} {
		seconds, err := strconv.ParseInt(test.timestamp, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(seconds, 0)
		got := http.Header{}
		if err := did.Sign(got, test.id, zeroPrivate, []byte(test.body), now); err != nil {
			t.Fatal(err)
		}
		if s := got.Get(did.HeaderSignature); s != test.python || got.Get(did.HeaderDID) != test.id || got.Get(did.HeaderTimestamp) != test.timestamp {
			t.Errorf("Sign(%s) = %v, want %s", test.body, got, test.python)
		}
		for _, signature := range []string{test.python, test.typeScript} {
			if signature == "" {
				continue
			}
			h, d := signed(test.id, test.timestamp, signature), keyDocument(t, test.id, zeroPublic)
			if err := verify(h, test.id, now, d, []byte(test.body)); err != nil {
				t.Errorf("Verify(%s) of %s = %v", test.body, signature, err)
			}
			if err := verify(h, "", now, d, []byte(test.body+" ")); reason(err) != did.ReasonInvalidSignature {
				t.Errorf("Verify() of another body = %v, want reason %s", err, did.ReasonInvalidSignature)
			}
		}
	}
}

// Expected texts are the output of Python's json.dumps and of JSON.stringify.
func TestRequestSignaturesEscapeLikeBothDialects(t *testing.T) {
	t.Parallel()
	const (
		id     = "did:bindu:test"
		body   = "\x00\x1f\x7f\u0080\u2028/<&>\"\\\b\f\n\r\t 😀a"
		python = `{"body": "\u0000\u001f\u007f\u0080\u2028/<&>\"\\\b\f\n\r\t \ud83d\ude00a", "did": "did:bindu:test", "timestamp": 1}`
		script = `{"body": "\u0000\u001f` + "\x7f\u0080\u2028" + `/<&>\"\\\b\f\n\r\t 😀a", "did": "did:bindu:test", "timestamp": 1}`
		mixed  = `{"body": "\u0000\u001f\u007f` + "\u0080\u2028" + `/<&>\"\\\b\f\n\r\t 😀a", "did": "did:bindu:test", "timestamp": 1}`
		spaces = `{"body":"\u0000\u001f\u007f\u0080\u2028/<&>\"\\\b\f\n\r\t \ud83d\ude00a","did":"did:bindu:test","timestamp":1}`
	)
	for text, valid := range map[string]bool{python: true, script: true, mixed: false, spaces: false} {
		h := signed(id, "1", base58.Encode(ed25519.Sign(zeroPrivate, []byte(text))))
		if err := verify(h, id, time.Unix(1, 0), keyDocument(t, id, zeroPublic), []byte(body)); (err == nil) != valid {
			t.Errorf("Verify() of a signature over %s = %v, want valid %t", text, err, valid)
		}
	}
}

func TestAttack16RequestSignatures(t *testing.T) {
	t.Parallel()
	const id = "did:bindu:a:bot:1"
	body, now := []byte(`{"a":1}`), time.Unix(1_700_000_000, 900_000_000)
	honest := func() http.Header {
		h := http.Header{}
		if err := did.Sign(h, id, zeroPrivate, body, now); err != nil {
			t.Fatal(err)
		}
		return h
	}
	at := func(seconds int64) http.Header {
		h := http.Header{}
		if err := did.Sign(h, id, zeroPrivate, body, time.Unix(seconds, 0)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	change := func(change func(h http.Header)) http.Header {
		h := honest()
		change(h)
		return h
	}
	document := keyDocument(t, id, zeroPublic)
	noPurpose := &did.Document{ID: id, Keys: []did.Key{{ID: id + "#k", Public: zeroPublic, Assertion: true}}}
	rotated := &did.Document{ID: id, Keys: append(keyDocument(t, id, newKey(1).Public().(ed25519.PublicKey)).Keys, did.Key{ID: id + "#2", Public: p256Key(t), Authentication: true}, document.Keys[0])}
	for name, test := range map[string]struct {
		header   http.Header
		want     string
		body     []byte
		document *did.Document
		reason   any
	}{
		"honest":                       {honest(), id, body, document, nil},
		"honest, of any DID":           {honest(), "", body, document, nil},
		"honest, by one of more keys":  {honest(), "", body, rotated, nil},
		"the oldest time":              {at(1_700_000_000 - 299), id, body, document, nil},
		"the newest time":              {at(1_700_000_000 + 300), id, body, document, nil},
		"300.9 s old":                  {at(1_700_000_000 - 300), id, body, document, did.ReasonInvalidSignature},
		"301 s in the future":          {at(1_700_000_000 + 301), id, body, document, did.ReasonInvalidSignature},
		"the body changed":             {honest(), id, []byte(`{"a":2}`), document, did.ReasonInvalidSignature},
		"the body serialized again":    {honest(), id, []byte(`{"a": 1}`), document, did.ReasonInvalidSignature},
		"the body cut":                 {honest(), id, nil, document, did.ReasonInvalidSignature},
		"the body too large":           {honest(), id, make([]byte, did.MaxSignedBody+1), document, did.ReasonTooLarge},
		"the body not UTF-8":           {honest(), id, []byte("\xff"), document, did.ReasonInvalidSignature},
		"the body with half a pair":    {honest(), id, []byte("\xed\xa0\x80"), document, did.ReasonInvalidSignature},
		"another key":                  {honest(), id, body, keyDocument(t, id, newKey(1).Public().(ed25519.PublicKey)), did.ReasonInvalidSignature},
		"a key that asserts only":      {honest(), id, body, noPurpose, did.ReasonKeyUnavailable},
		"the document of another DID":  {honest(), id, body, keyDocument(t, zeroDID, zeroPublic), did.ReasonMismatch},
		"another DID than the caller":  {honest(), zeroDID, body, document, did.ReasonMismatch},
		"no DID":                       {change(func(h http.Header) { h.Set(did.HeaderDID, "bindu:a") }), "", body, document, did.ReasonMismatch},
		"a DID that breaks the text":   {change(func(h http.Header) { h.Set(did.HeaderDID, id+`", "x": "`) }), "", body, document, did.ReasonMismatch},
		"an overlong DID":              {change(func(h http.Header) { h.Set(did.HeaderDID, id+strings.Repeat("1", 1<<20)) }), "", body, document, did.ReasonMismatch},
		"the time with a space":        {change(func(h http.Header) { h.Set(did.HeaderTimestamp, "1700000000 ") }), id, body, document, did.ReasonInvalidSignature},
		"the time with a sign":         {change(func(h http.Header) { h.Set(did.HeaderTimestamp, "+1700000000") }), id, body, document, did.ReasonInvalidSignature},
		"the time with zeros":          {change(func(h http.Header) { h.Set(did.HeaderTimestamp, "01700000000") }), id, body, document, did.ReasonInvalidSignature},
		"the time with a fraction":     {change(func(h http.Header) { h.Set(did.HeaderTimestamp, "1700000000.0") }), id, body, document, did.ReasonInvalidSignature},
		"the time in another second":   {change(func(h http.Header) { h.Set(did.HeaderTimestamp, "1700000001") }), id, body, document, did.ReasonInvalidSignature},
		"the last time":                {change(func(h http.Header) { h.Set(did.HeaderTimestamp, strconv.Itoa(math.MaxInt64)) }), id, body, document, did.ReasonInvalidSignature},
		"the first time":               {change(func(h http.Header) { h.Set(did.HeaderTimestamp, strconv.Itoa(math.MinInt64)) }), id, body, document, did.ReasonInvalidSignature},
		"no time":                      {change(func(h http.Header) { h.Del(did.HeaderTimestamp) }), id, body, document, did.ReasonMissingHeaders},
		"no signature":                 {change(func(h http.Header) { h.Del(did.HeaderSignature) }), id, body, document, did.ReasonMissingHeaders},
		"an empty signature":           {change(func(h http.Header) { h.Set(did.HeaderSignature, "") }), id, body, document, did.ReasonMissingHeaders},
		"no header":                    {http.Header{}, id, body, document, did.ReasonMissingHeaders},
		"two DIDs":                     {change(func(h http.Header) { h.Add(did.HeaderDID, id) }), id, body, document, did.ReasonMissingHeaders},
		"two signatures":               {change(func(h http.Header) { h.Add(did.HeaderSignature, "1") }), id, body, document, did.ReasonMissingHeaders},
		"a signature without its end":  {change(func(h http.Header) { h.Set(did.HeaderSignature, h.Get(did.HeaderSignature)[4:]) }), id, body, document, did.ReasonInvalidSignature},
		"a signature with more zeros":  {change(func(h http.Header) { h.Set(did.HeaderSignature, "1"+h.Get(did.HeaderSignature)) }), id, body, document, did.ReasonInvalidSignature},
		"a signature without base58":   {change(func(h http.Header) { h.Set(did.HeaderSignature, strings.Repeat("0", 88)) }), id, body, document, did.ReasonInvalidSignature},
		"an overlong signature":        {change(func(h http.Header) { h.Set(did.HeaderSignature, strings.Repeat("1", 1<<20)) }), id, body, document, did.ReasonInvalidSignature},
		"the zero signature":           {change(func(h http.Header) { h.Set(did.HeaderSignature, strings.Repeat("1", 64)) }), id, body, document, did.ReasonInvalidSignature},
		"a signature plus the order":   {change(func(h http.Header) { h.Set(did.HeaderSignature, addOrder(t, h.Get(did.HeaderSignature))) }), id, body, document, did.ReasonInvalidSignature},
		"the text of the signature":    {change(func(h http.Header) { h.Set(did.HeaderSignature, did.SignText(zeroPrivate, string(body))) }), id, body, document, did.ReasonInvalidSignature},
		"the signature of another DID": {signedFor(t, "did:bindu:a:bot:2", id, body, now), id, body, document, did.ReasonInvalidSignature},
	} {
		if err := verify(test.header, test.want, now, test.document, test.body); reason(err) != test.reason || (err == nil) != (test.reason == nil) {
			t.Errorf("%s: Verify() = %v with reason %v, want %v", name, err, reason(err), test.reason)
		}
		if got, want := did.Signed(test.header), len(test.header) > 0; got != want {
			t.Errorf("%s: Signed() = %t, want %t", name, got, want)
		}
	}
}

// A malformed header is rejected before the body is read and the key is found.
func TestAttack16MalformedHeaders(t *testing.T) {
	t.Parallel()
	const id, timestamp = "did:bindu:test", "1700000000"
	signature, now := did.SignText(zeroPrivate, ""), time.Unix(1_700_000_000, 0)
	if got, err := did.ParseRequestSignature(signed(id, timestamp, signature), "", now); err != nil || got.DID != id || !got.Time.Equal(now) || base58.Encode(got.Value[:]) != signature {
		t.Errorf("ParseRequestSignature() = %+v, %v, want %s, %s and %s", got, err, id, now, signature)
	}
	for _, h := range []http.Header{
		signed("bindu:test", timestamp, signature), signed(id+`", "x": "`, timestamp, signature), signed(id+strings.Repeat("1", 1<<20), timestamp, signature), signed(id+"#key", timestamp, signature),
		signed(id, "+1700000000", signature), signed(id, "01700000000", signature), signed(id, "1700000000 ", signature), signed(id, "1_700_000_000", signature),
	} {
		if got, err := did.ParseRequestSignature(h, "", now); err == nil {
			t.Errorf("ParseRequestSignature(%.60q, %q) = %+v, want an error", h.Get(did.HeaderDID), h.Get(did.HeaderTimestamp), got)
		}
	}
}

// signedFor returns the headers of a request of one DID with the signature of another DID by the same key.
func signedFor(t testing.TB, other, id string, body []byte, now time.Time) http.Header {
	t.Helper()
	h := http.Header{}
	if err := did.Sign(h, other, zeroPrivate, body, now); err != nil {
		t.Fatal(err)
	}
	h.Set(did.HeaderDID, id)
	return h
}

// addOrder returns a signature with the order of the group added to its scalar, which other libraries accept.
func addOrder(t testing.TB, signature string) string {
	t.Helper()
	order := [32]byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 31: 0x10}
	raw, err := base58.Decode(signature)
	if err != nil {
		t.Fatal(err)
	}
	carry := 0
	for i, b := range order {
		sum := int(raw[32+i]) + int(b) + carry
		raw[32+i], carry = byte(sum), sum>>8
	}
	return base58.Encode(raw)
}

func TestSignRejectsWhatCannotBeVerified(t *testing.T) {
	t.Parallel()
	if err := did.Sign(http.Header{}, `did:a:"`, zeroPrivate, nil, time.Unix(0, 0)); reason(err) != did.ReasonDID {
		t.Errorf("Sign() for another text than a DID = %v, want reason %s", err, did.ReasonDID)
	}
	for want, body := range map[any][]byte{did.ReasonInvalidSignature: []byte("\xff"), did.ReasonTooLarge: make([]byte, did.MaxSignedBody+1)} {
		h := http.Header{}
		if err := did.Sign(h, zeroDID, zeroPrivate, body, time.Unix(0, 0)); reason(err) != want || len(h) > 0 {
			t.Errorf("Sign() of %d bytes = %v, headers %v, want reason %v and no headers", len(body), err, h, want)
		}
	}
}

// A body is copied once, also if the second dialect is tried.
func TestVerifyCopiesTheBodyOnce(t *testing.T) {
	const id = "did:bindu:test"
	body, now := []byte(strings.Repeat("aé\n", 1<<16)), time.Unix(1, 0)
	h := http.Header{}
	if err := did.Sign(h, id, newKey(1), body, now); err != nil {
		t.Fatal(err)
	}
	d := keyDocument(t, id, zeroPublic)
	const runs, copied = 10, uint64(len("a\\u00e9\\n")) << 16
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	allocations := testing.AllocsPerRun(runs, func() {
		if err := verify(h, id, now, d, body); reason(err) != did.ReasonInvalidSignature {
			t.Errorf("Verify() = %v, want reason %s", err, did.ReasonInvalidSignature)
		}
	})
	runtime.ReadMemStats(&after)
	if got, want := (after.TotalAlloc-before.TotalAlloc)/(runs+1), copied+copied/8; got > want {
		t.Errorf("Verify() allocates %d bytes, want at most %d", got, want)
	}
	if allocations > 16 {
		t.Errorf("Verify() makes %g allocations, want at most 16", allocations)
	}
}

// The text of a body is a JSON string in both dialects, and only signed requests are accepted.
func FuzzRequestSignatures(f *testing.F) {
	f.Add("did:bindu:test", "1000", "3SfU4VPTHLbzZzCn17ZqU6y2tnzHQbdo2nnXQr6XZXk34XgyzwSKRrCYEWRmmGXrV39mdkyhTsy5oasfTpNuqyM2", []byte(`{"test": "value"}`))
	f.Add("did:bindu:a:b:1", "x", "", []byte("\x7f\u2028😀\"\\\n\x00"))
	f.Add(zeroDID, "-1", strings.Repeat("1", 64), []byte("\xff"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		now := time.Unix(1000, 0)
		d := &did.Document{ID: id, Keys: []did.Key{{Public: zeroPublic, Authentication: true}}}
		if s, err := did.ParseRequestSignature(signed(id, timestamp, signature), "", now); err == nil {
			if base58.Encode(s.Value[:]) != signature || strconv.FormatInt(s.Time.Unix(), 10) != timestamp || s.DID != id {
				t.Errorf("ParseRequestSignature(%q, %q, %q) = %+v", id, timestamp, signature, s)
			}
			_ = s.Verify(d, body)
		}
		h := http.Header{}
		valid := did.Check(id) == nil && utf8.Valid(body) && len(body) <= did.MaxSignedBody
		if err := did.Sign(h, id, zeroPrivate, body, now); (err == nil) != valid {
			t.Fatalf("Sign(%q, %q) = %v, want valid %t", id, body, err, valid)
		}
		if !valid {
			return
		}
		if err := verify(h, id, now, d, body); err != nil {
			t.Errorf("Verify(Sign(%q)) = %v", body, err)
		}
		// encoding/json escapes other characters, so the signature over its text is valid if the body has none of them.
		text, err := json.Marshal(string(body))
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if json.Unmarshal(text, &back) != nil || back != string(body) || strings.ContainsAny(string(text), `\`) || strings.ContainsRune(back, 0x7f) || !isASCII(back) {
			return
		}
		plain := ed25519.Sign(zeroPrivate, []byte(`{"body": `+string(text)+`, "did": "`+id+`", "timestamp": 1000}`))
		if got := h.Get(did.HeaderSignature); got != base58.Encode(plain) {
			t.Errorf("Sign(%q) does not sign %s", body, text)
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func TestTextSignatures(t *testing.T) {
	t.Parallel()
	const text = "yes 😀"
	signature := did.SignText(zeroPrivate, text)
	if raw, err := base58.Decode(signature); err != nil || !ed25519.Verify(zeroPublic, []byte(text), raw) {
		t.Errorf("SignText(%q) = %s, want base58 of a signature over the text", text, signature)
	}
	sum := sha256.Sum256([]byte(text))
	for name, test := range map[string]struct {
		public          ed25519.PublicKey
		text, signature string
		want            bool
	}{
		"honest":                   {zeroPublic, text, signature, true},
		"another text":             {zeroPublic, text + " ", signature, false},
		"another key":              {newKey(1).Public().(ed25519.PublicKey), text, signature, false},
		"no key":                   {nil, text, signature, false},
		"no signature":             {zeroPublic, text, "", false},
		"a signature of the hash":  {zeroPublic, text, did.SignText(zeroPrivate, string(sum[:])), false},
		"a signature with a zero":  {zeroPublic, text, "1" + signature, false},
		"an overlong signature":    {zeroPublic, text, strings.Repeat("1", 1<<20), false},
		"a signature with a space": {zeroPublic, text, signature + " ", false},
	} {
		if got := did.VerifyText(test.public, test.text, test.signature); got != test.want {
			t.Errorf("VerifyText() of %s = %t, want %t", name, got, test.want)
		}
	}
}

func FuzzVerifyText(f *testing.F) {
	f.Add("yes", did.SignText(zeroPrivate, "yes"))
	f.Add("", "1")
	f.Fuzz(func(t *testing.T, text, signature string) {
		if got, want := did.VerifyText(zeroPublic, text, signature), signature == did.SignText(zeroPrivate, text); got != want {
			t.Errorf("VerifyText(%q, %q) = %t, want %t", text, signature, got, want)
		}
	})
}
