package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The parts of a schema name for a DID. PostgreSQL truncates names to 63 bytes.
const (
	didPrefix  = "did_"
	didHash    = 20 // hex digits
	didReadout = 63 - 1 - didHash
)

// SchemaOf returns the schema name for a DID, for use as Config.Schema: a readable prefix and
// a hash of the DID, up to 63 bytes of a-z, 0-9 and _. Different DIDs have different names, even
// if they differ only in case or punctuation. It returns "" for "".
func SchemaOf(did string) string {
	if did == "" {
		return ""
	}
	var b strings.Builder
	for _, r := range strings.ToLower(did) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := b.String()
	if !strings.HasPrefix(name, didPrefix) {
		name = didPrefix + name
	}
	if len(name) > didReadout {
		name = name[:didReadout]
	}
	sum := sha256.Sum256([]byte(did))
	return strings.TrimRight(name, "_") + "_" + hex.EncodeToString(sum[:])[:didHash]
}
