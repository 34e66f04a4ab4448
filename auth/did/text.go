package did

import (
	"crypto/ed25519"

	"github.com/mr-tron/base58"
)

// TextSignature is the member of a part's metadata with the signature of its text by [SignText].
const TextSignature = "did.message.signature"

// SignText returns the signature of a text of an artifact like Bindu: Ed25519 in base58. It covers neither the task nor the
// time.
func SignText(private ed25519.PrivateKey, text string) string {
	return base58.Encode(ed25519.Sign(private, []byte(text)))
}

// VerifyText reports whether a key has signed a text with [SignText].
func VerifyText(public ed25519.PublicKey, text, signature string) bool {
	raw := decodeBase58(signature, ed25519.SignatureSize)
	return raw != nil && len(public) == ed25519.PublicKeySize && ed25519.Verify(public, []byte(text), raw)
}
