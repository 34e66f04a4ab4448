package client

import (
	"cmp"
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
)

// CardKeys are public keys that may sign agent cards. The zero value has no keys.
type CardKeys struct{ keys cardsig.Keys }

// CardSignature describes a valid signature of a card: the id and the algorithm of its key, and
// in JKU the URL of the signer's key set, as the signature claims.
type CardSignature = cardsig.Signature

// The reasons why [VerifyCard] rejects a card, for use with [errors.Is].
var (
	// ErrCardUnsigned is the error for a card without signatures.
	ErrCardUnsigned = cardsig.ErrUnsigned
	// ErrCardKeyUnknown is the error for a card that none of the keys signed.
	ErrCardKeyUnknown = cardsig.ErrUnknownKey
	// ErrCardMismatch is the error for a card that was changed after one of the keys signed it.
	ErrCardMismatch = cardsig.ErrMismatch
)

// ParseCardKeys reads keys from a JSON Web Key Set, or from PEM with public keys or certificates.
// Ed25519 keys (EdDSA), ECDSA keys on P-256 (ES256) and RSA keys of 2048 to 8192 bits (RS256 and
// PS256) are supported.
func ParseCardKeys(text []byte) (CardKeys, error) {
	keys, err := cardsig.ParseKeys(text)
	return CardKeys{keys}, err
}

// VerifyCard checks the signatures of an agent card of A2A 0.3 or 1.0. The text of the card
// must be as the agent sent it. It returns the first signature that is valid for one of the
// keys. A valid signature covers all members of the card, except empty strings, arrays and
// objects.
func VerifyCard(card []byte, keys CardKeys) (*CardSignature, error) { return keys.keys.Verify(card) }

// CardKeys fetches a JSON Web Key Set. If keySet is "", its URL is /.well-known/jwks.json at the
// root of the client's host. The keys are as trustworthy as that URL. The client sends its headers,
// such as its Token, only to its own host.
func (c *Client) CardKeys(ctx context.Context, keySet string) (CardKeys, error) {
	at, err := c.url.Parse(cmp.Or(keySet, "/.well-known/jwks.json"))
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.User != nil {
		return CardKeys{}, a2a.Errorf(a2a.CodeInvalid, "the URL of the key set must be an http or https URL without credentials")
	}
	req, err := c.newRequest(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return CardKeys{}, err
	}
	if at.Scheme != c.url.Scheme || at.Host != c.url.Host {
		req.Header = http.Header{}
	}
	resp, err := c.do(req)
	if err != nil {
		return CardKeys{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return CardKeys{}, a2a.Errorf(a2a.CodeInvalidAgentResponse, "no key set at %s: HTTP status %d", at, resp.StatusCode)
	}
	body, err := c.read(ctx, resp)
	if err != nil {
		return CardKeys{}, err
	}
	keys, err := ParseCardKeys(body)
	if err != nil {
		return CardKeys{}, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the key set at %s is not usable: %s", at, err)
	}
	return keys, nil
}
