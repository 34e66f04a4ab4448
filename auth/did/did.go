package did

import (
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// MaxLength is the maximum length of a DID in bytes.
const MaxLength = 512

// The reasons in [a2a.Error.Data] for input that is not valid.
const (
	ReasonDID      = "did"
	ReasonDocument = "did_document"
)

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// idChars are the characters of an identifier (DID Core section 3.1), and the plus sign, which Bindu keeps in the
	// addresses of authors.
	idChars = letters + digits + "._-+"
)

// Check returns an error unless text is a DID of at most [MaxLength] bytes, without path, query and fragment.
func Check(text string) error {
	method, id := split(text)
	if len(text) > MaxLength || method == "" || !of(method, lower+digits) || id == "" || !of(id, idChars+":%") {
		return invalid(ReasonDID, "%s is not a DID of at most %d bytes, such as did:web:example.com", a2a.Quote(text), MaxLength)
	}
	return nil
}

// split returns the method and the identifier of a DID, "" if text does not start like a DID.
func split(text string) (method, id string) {
	rest, ok := strings.CutPrefix(text, "did:")
	if !ok {
		return "", ""
	}
	method, id, _ = strings.Cut(rest, ":")
	return method, id
}

// of reports whether text consists of the ASCII characters of set.
func of(text, set string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(set, r) })
}

func invalid(reason, format string, args ...any) *a2a.Error {
	return a2a.Refusef(a2a.CodeInvalid, reason, format, args...)
}
