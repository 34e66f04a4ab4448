package did

import (
	"crypto/ed25519"
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
)

const binduPrefix = "did:bindu:"

// binduNames replaces characters of authors and names like Bindu.
var binduNames = strings.NewReplacer(" ", "_", "@", "_at_", ".", "_")

// Bindu is a did:bindu. Its ID is derived from the key of its agent ([Bindu.Proves]), or from
// "author:name" in agents of Bindu, which proves no key.
type Bindu struct {
	Author, Name, ID string
}

// NewBindu returns the did:bindu of an author, a name and a key, with an ID that proves the key. Author and name must
// be ASCII letters, digits, spaces and "@._-+".
func NewBindu(author, name string, public ed25519.PublicKey) (Bindu, error) {
	return ParseBindu(binduPrefix + binduNames.Replace(strings.ToLower(author)) + ":" + binduNames.Replace(strings.ToLower(name)) + ":" + binduID(public))
}

// ParseBindu parses a did:bindu with an author, a name and an id.
func ParseBindu(did string) (Bindu, error) {
	rest, ok := strings.CutPrefix(did, binduPrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(did) > MaxLength || len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" ||
		!of(parts[0]+parts[1], lower+digits+"._-+") || !of(parts[2], idChars) {
		return Bindu{}, invalid(ReasonDID, "%s is not a did:bindu of at most %d bytes: want did:bindu:author:name:id, author and name in lower case", a2a.Quote(did), MaxLength)
	}
	return Bindu{Author: parts[0], Name: parts[1], ID: parts[2]}, nil
}

// String returns the DID.
func (b Bindu) String() string { return binduPrefix + b.Author + ":" + b.Name + ":" + b.ID }

// Proves reports whether the ID is derived from a key. If it is not, the DID alone does not prove which key the agent
// has.
func (b Bindu) Proves(public ed25519.PublicKey) bool {
	return len(public) == ed25519.PublicKeySize && b.ID == binduID(public)
}

// binduID returns the first 16 bytes of the hash of a key as UUID.
func binduID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return uuid.UUID(sum[:16]).String()
}
