// Package cardsig signs agent cards and verifies their signatures (A2A 1.0 section 8.4, A2A 0.3
// section 5.5.6).
//
// # Concepts
//
// A signature is a JSON Web Signature (RFC 7515) over the canonical form (RFC 8785) of the card
// without its signatures. Its key is an Ed25519 key (EdDSA), an ECDSA key on P-256 (ES256), or an RSA
// key of at least 2048 bits (RS256; PS256 is only verified, because its signatures are random, and
// a card that does not change must not get another ETag). The id of a key is its thumbprint
// (RFC 7638).
//
// Some agents sign their card without members that have empty values, even if the protocol
// requires the members. [Keys.Verify] accepts both forms.
package cardsig
