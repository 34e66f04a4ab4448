package a2a

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Anonymous is the id of the principal of unauthenticated callers.
const Anonymous = "anonymous"

// Principal is a caller. Every read and write names one. Objects of other principals are
// indistinguishable from objects that do not exist.
type Principal struct {
	// ID is the owner of the objects that the principal creates: 1 to MaxPrincipalID bytes of UTF-8 without
	// control characters.
	ID string `json:"id" wire:"required"`
	// Name is a display name.
	Name string `json:"name,omitempty"`
	// Scopes are what the principal may do. Nil means everything, empty means nothing.
	Scopes []Scope `json:"scopes,omitzero"`

	// The fields below are facts that an authenticator has verified. A payload never fills them. The facts of
	// a message's sender are stored with the message.

	// Level is the trust level. "" is guest.
	Level TrustLevel `json:"level,omitempty"`
	// Schemes are the names of the security schemes that the request satisfied. The first one identified the
	// principal and granted the Scopes.
	Schemes []string `json:"schemes,omitempty"`
	// Roles are the names of the roles that the principal has.
	Roles []string `json:"roles,omitempty"`
	// Permissions are dotted names such as agent.create; agent.* stands for all that start with "agent.". Nil means
	// everything, empty means nothing.
	Permissions []string `json:"permissions,omitzero"`
	// DID is the decentralized identifier that the principal has proven, "" if none.
	DID string `json:"did,omitempty"`
	// Client is the OAuth client that sent the request, "" if there is none.
	Client string `json:"client,omitempty"`
	// Issuer is the name of the token's issuer, "" if there is none.
	Issuer string `json:"issuer,omitempty"`
	// Proof is how the caller has proven to hold a key, "" if a bearer of the credential may be anybody.
	Proof Proof `json:"proof,omitempty"`
	// Actor acts for the principal: the actor of a delegated token (RFC 8693 section 4.1), or an operator. It is "" if
	// the principal acts itself.
	Actor string `json:"actor,omitempty"`
	// Credential is a hash of the credential, for logs.
	Credential string `json:"credential,omitempty"`
	// Expires is when the credential ends; the zero time means never.
	Expires time.Time `json:"expires,omitempty"`
}

// Plain reports whether nothing is known of the principal but its ID.
func (p *Principal) Plain() bool {
	return p.Name == "" && p.Scopes == nil && p.Level == "" && p.Schemes == nil && p.Roles == nil && p.Permissions == nil && p.DID == "" &&
		p.Client == "" && p.Issuer == "" && p.Proof == "" && p.Actor == "" && p.Credential == "" && p.Expires.IsZero()
}

// Proof is how a caller has proven to hold a private key.
type Proof string

// The proofs.
const (
	ProofDID       Proof = "did"  // a signature of the request by the key of the DID
	ProofMutualTLS Proof = "mtls" // a client certificate
)

// MayUse reports whether the principal has a permission; "" is the permission that everybody has.
func (p Principal) MayUse(permission string) bool {
	return permission == "" || p.Permissions == nil || slices.ContainsFunc(p.Permissions, func(has string) bool {
		prefix, all := strings.CutSuffix(has, "*")
		return has == permission || all && (prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(permission, prefix))
	})
}

// MaxPrincipalID is the maximum length of Principal.ID in bytes.
const MaxPrincipalID = 512

// Check returns an error with CodeDenied if the ID is not valid.
func (p Principal) Check() error {
	switch {
	case p.ID == "":
		return Errorf(CodeDenied, "the principal has no id")
	case len(p.ID) > MaxPrincipalID:
		return Errorf(CodeDenied, "the id of the principal has %d bytes, want at most %d", len(p.ID), MaxPrincipalID)
	case !utf8.ValidString(p.ID), strings.ContainsFunc(p.ID, unicode.IsControl):
		return Errorf(CodeDenied, "the id of the principal %s has control characters or is not UTF-8", Quote(p.ID))
	}
	return nil
}

// May reports whether the principal may call methods with a scope.
func (p Principal) May(s Scope) bool { return p.Scopes == nil || slices.Contains(p.Scopes, s) }

// Scope is a right that methods require of principals, see [Method].
type Scope string

// The scopes, as OAuth clients of Bindu's agents request them.
const (
	ScopeRead  Scope = "agent:read"
	ScopeWrite Scope = "agent:write"
)
