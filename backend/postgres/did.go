package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The parts of a schema's name that is made from a DID: 63 bytes are all that
// PostgreSQL keeps of a name.
const (
	didPrefix  = "did_"
	didHash    = 20 // hex digits
	didReadout = 63 - 1 - didHash
)

// SchemaOf returns the name of the schema that belongs to a DID, for Config.Schema:
// up to 63 bytes of a-z, 0-9 and _, of which the first can be read and the last are a
// hash of the whole DID. DIDs that differ, be it in case or in their punctuation only,
// have different schemas. It is "" for "".
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
