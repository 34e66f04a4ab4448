package cardsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

// The algorithms of signatures.
const (
	ES256 = "ES256"
	EdDSA = "EdDSA"
	PS256 = "PS256"
	RS256 = "RS256"
)

// Sizes of RSA keys in bits. Larger keys would make it expensive to verify the card of another
// agent.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// Key is a public key that may sign agent cards.
type Key struct {
	// ID identifies the key in signatures and key sets.
	ID string
	// Algorithm is ES256, EdDSA, RS256 or PS256.
	Algorithm string

	public crypto.PublicKey
	// anyRSA means that the key also verifies the other algorithm of RSA keys, because its key
	// set names none.
	anyRSA bool
}

// verifies reports whether the key may verify signatures with an algorithm.
func (k *Key) verifies(algorithm string) bool {
	return k.Algorithm == algorithm || k.anyRSA && (algorithm == RS256 || algorithm == PS256)
}

// Public returns the public key: one of the types that [NewKey] accepts.
func (k *Key) Public() crypto.PublicKey { return k.public }

// jwk is a JSON Web Key (RFC 7517, RFC 8037).
type jwk struct {
	KTY string `json:"kty"`
	CRV string `json:"crv,omitempty"`
	X   string `json:"x,omitempty"`
	Y   string `json:"y,omitempty"`
	N   string `json:"n,omitempty"`
	E   string `json:"e,omitempty"`
	KID string `json:"kid,omitempty"`
	Alg string `json:"alg,omitempty"`
	Use string `json:"use,omitempty"`
}

var b64 = base64.RawURLEncoding

// NewKey returns the key of an [ed25519.PublicKey], of an [*ecdsa.PublicKey] on the curve P-256, or of
// an [*rsa.PublicKey] of 2048 to 8192 bits, which signs with RS256 and also verifies PS256. Its ID
// is its thumbprint.
func NewKey(public crypto.PublicKey) (Key, error) {
	k := Key{public: public}
	switch p := public.(type) {
	case ed25519.PublicKey:
		k.Algorithm = EdDSA
	case *ecdsa.PublicKey:
		if p.Curve != elliptic.P256() {
			return Key{}, fmt.Errorf("the curve %s is not supported, want P-256", p.Curve.Params().Name)
		}
		k.Algorithm = ES256
	case *rsa.PublicKey:
		if err := checkRSA(p); err != nil {
			return Key{}, err
		}
		k.Algorithm, k.anyRSA = RS256, true
	default:
		return Key{}, fmt.Errorf("a %T is not supported, want Ed25519, ECDSA with P-256 or RSA", public)
	}
	w, err := k.jwk()
	if err != nil {
		return Key{}, err
	}
	// The members that RFC 7638 requires, in its order.
	text := fmt.Sprintf(`{"crv":%q,"kty":%q,"x":%q}`, w.CRV, w.KTY, w.X)
	switch w.KTY {
	case "EC":
		text = fmt.Sprintf(`{"crv":%q,"kty":%q,"x":%q,"y":%q}`, w.CRV, w.KTY, w.X, w.Y)
	case "RSA":
		text = fmt.Sprintf(`{"e":%q,"kty":%q,"n":%q}`, w.E, w.KTY, w.N)
	}
	sum := sha256.Sum256([]byte(text))
	k.ID = b64.EncodeToString(sum[:])
	return k, nil
}

// checkRSA returns an error if crypto/rsa would reject every signature by the key, or if its size is
// not accepted.
func checkRSA(p *rsa.PublicKey) error {
	if p.N == nil || p.N.Bit(0) == 0 || p.E < 3 || p.E&1 == 0 || p.E > maxExponent {
		return errors.New("the RSA key is not valid: its modulus and its exponent must be odd, and the exponent at least 3 and less than 2^31")
	}
	if bits := p.N.BitLen(); bits < minRSABits || bits > maxRSABits {
		return fmt.Errorf("the RSA key has %d bits, want %d to %d", bits, minRSABits, maxRSABits)
	}
	return nil
}

// maxExponent is the maximum public exponent of an RSA key that crypto/rsa accepts.
const maxExponent = 1<<31 - 1

func (k *Key) jwk() (jwk, error) {
	w := jwk{KID: k.ID, Alg: k.Algorithm, Use: "sig"}
	switch p := k.public.(type) {
	case ed25519.PublicKey:
		w.KTY, w.CRV, w.X = "OKP", "Ed25519", b64.EncodeToString(p)
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			return jwk{}, err
		}
		w.KTY, w.CRV, w.X, w.Y = "EC", "P-256", b64.EncodeToString(point[1:33]), b64.EncodeToString(point[33:])
	case *rsa.PublicKey:
		w.KTY, w.N, w.E = "RSA", b64.EncodeToString(p.N.Bytes()), b64.EncodeToString(big.NewInt(int64(p.E)).Bytes())
	}
	return w, nil
}

// key returns the key of a JSON Web Key; ok is false if its kind or use is not supported.
func (w *jwk) key() (k Key, ok bool, err error) {
	if w.Use != "" && w.Use != "sig" {
		return k, false, nil
	}
	x, errX := b64.DecodeString(w.X)
	y, errY := b64.DecodeString(w.Y)
	if errX != nil || errY != nil {
		return k, false, errors.New("x and y must be base64url")
	}
	var public crypto.PublicKey
	switch w.KTY + " " + w.CRV {
	case "OKP Ed25519":
		if len(x) != ed25519.PublicKeySize {
			return k, false, errors.New("x must have 32 bytes")
		}
		public = ed25519.PublicKey(x)
	case "EC P-256":
		point := append(append([]byte{4}, x...), y...)
		if public, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err != nil {
			return k, false, errors.New("x and y are not a point of the curve")
		}
	case "RSA ":
		if w.Alg != "" && w.Alg != RS256 && w.Alg != PS256 {
			return k, false, nil
		}
		if public, err = w.rsa(); err != nil {
			return k, false, err
		}
	default:
		return k, false, nil
	}
	if k, err = NewKey(public); err != nil {
		return k, false, err
	}
	if w.KID != "" {
		k.ID = w.KID
	}
	if k.anyRSA && w.Alg != "" {
		k.Algorithm, k.anyRSA = w.Alg, false
	}
	return k, true, nil
}

// rsa returns the RSA key of a JSON Web Key.
func (w *jwk) rsa() (*rsa.PublicKey, error) {
	n, errN := b64.DecodeString(w.N)
	e, errE := b64.DecodeString(w.E)
	if errN != nil || errE != nil || len(n) == 0 || len(e) == 0 {
		return nil, errors.New("n and e must be base64url")
	}
	exponent := new(big.Int).SetBytes(e)
	if exponent.BitLen() > 31 {
		return nil, errors.New("e must be less than 2^31")
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}, nil
}

// Keys are public keys that may sign agent cards.
type Keys []Key

// MarshalJSON returns the keys as a JSON Web Key Set.
func (keys Keys) MarshalJSON() ([]byte, error) {
	set := make([]jwk, len(keys))
	for i := range keys {
		var err error
		if set[i], err = keys[i].jwk(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{"keys": set})
}

// ParseKeys reads public keys: a JSON Web Key Set, or PEM with public or private keys or
// certificates. Keys of other kinds in a set are ignored.
func ParseKeys(text []byte) (keys Keys, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return parsePEM(text, func(block *pem.Block) (Key, error) {
			public, err := publicKey(block)
			if err != nil {
				return Key{}, err
			}
			return NewKey(public)
		})
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the key set is not valid JSON: %w", err)
	}
	for i := range set.Keys {
		k, ok, err := set.Keys[i].key()
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		if ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for EdDSA (Ed25519), ES256 (P-256), RS256 or PS256 (RSA)")
	}
	return keys, nil
}

func publicKey(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	private, err := privateKey(block)
	if err != nil {
		return nil, err
	}
	return private.Public(), nil
}

func privateKey(block *pem.Block) (crypto.Signer, error) {
	switch block.Type {
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the PRIVATE KEY is not valid PKCS #8")
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, fmt.Errorf("a %T cannot sign", key)
	case "EC PRIVATE KEY":
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the EC PRIVATE KEY is not valid")
		}
		return key, nil
	case "RSA PRIVATE KEY":
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the RSA PRIVATE KEY is not valid")
		}
		return key, nil
	}
	return nil, fmt.Errorf("a block of the type %s is not a key", block.Type)
}

// ParsePrivateKeys reads the private keys of a PEM file, in its order.
func ParsePrivateKeys(text []byte) ([]crypto.Signer, error) {
	return parsePEM(text, func(block *pem.Block) (crypto.Signer, error) {
		key, err := privateKey(block)
		if err != nil {
			return nil, err
		}
		_, err = NewKey(key.Public())
		return key, err
	})
}

// parsePEM returns the results of parse for the blocks of a PEM file, at least one. Parameters of
// curves, which openssl writes before a key, are ignored.
func parsePEM[K any](text []byte, parse func(*pem.Block) (K, error)) (all []K, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if text = rest; block.Type == "EC PARAMETERS" {
			continue
		}
		key, err := parse(block)
		if err != nil {
			return nil, err
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return nil, errors.New("no key in PEM format found")
	}
	return all, nil
}
