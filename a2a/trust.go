package a2a

import "slices"

// TrustLevel determines what a caller may do, an extension. Levels are ordered; compare them
// with [TrustLevel.AtLeast].
type TrustLevel string

// The trust levels, highest first.
const (
	TrustSuperAdmin TrustLevel = "super_admin"
	TrustAdmin      TrustLevel = "admin"
	TrustManager    TrustLevel = "manager"
	TrustOperator   TrustLevel = "operator"
	TrustEditor     TrustLevel = "editor"
	TrustAnalyst    TrustLevel = "analyst"
	TrustAuditor    TrustLevel = "auditor"
	TrustSupport    TrustLevel = "support"
	TrustViewer     TrustLevel = "viewer"
	TrustGuest      TrustLevel = "guest"
)

// EnumValues returns the accepted values, highest first.
func (TrustLevel) EnumValues() []string {
	return []string{
		"super_admin", "admin", "manager", "operator", "editor",
		"analyst", "auditor", "support", "viewer", "guest",
	}
}

// Rank returns 0 for guest to 9 for super_admin, and -1 for unknown levels.
func (l TrustLevel) Rank() int {
	levels := l.EnumValues()
	if i := slices.Index(levels, string(l)); i >= 0 {
		return len(levels) - 1 - i
	}
	return -1
}

// AtLeast reports whether l is at least need. It is false if either level is unknown, so that
// a misspelled level grants nothing.
func (l TrustLevel) AtLeast(need TrustLevel) bool {
	return need.Rank() >= 0 && l.Rank() >= need.Rank()
}

// Lower returns the lower of two levels, such as a claimed level and a verified one.
func (l TrustLevel) Lower(other TrustLevel) TrustLevel {
	if l.Rank() < other.Rank() {
		return l
	}
	return other
}

// IdentityProvider is a service that authenticates callers, an extension.
type IdentityProvider string

// The identity providers.
const (
	ProviderKeycloak IdentityProvider = "keycloak"
	ProviderAzureAD  IdentityProvider = "azure_ad"
	ProviderOkta     IdentityProvider = "okta"
	ProviderAuth0    IdentityProvider = "auth0"
	ProviderCustom   IdentityProvider = "custom"
	ProviderHydra    IdentityProvider = "hydra"
)

// EnumValues returns the accepted values.
func (IdentityProvider) EnumValues() []string {
	return []string{"keycloak", "azure_ad", "okta", "auth0", "custom", "hydra"}
}

// KeycloakRole is a role of an identity provider, an extension.
type KeycloakRole struct {
	ID   string `json:"roleId" wire:"required"` // a UUID
	Name string `json:"roleName" wire:"required"`
	// Permissions are dotted names such as agent.create; may be empty.
	Permissions []string `json:"permissions" wire:"required"`
	// TrustLevel is the level that the role grants.
	TrustLevel TrustLevel `json:"trustLevel" wire:"required"`
	RealmName  string     `json:"realmName" wire:"required"`
	// ExternalMappings maps other providers to their names of the same role.
	ExternalMappings map[string]string `json:"externalMappings,omitzero"`
	// OperationPermissions maps operations to the minimum trust level.
	OperationPermissions map[string]TrustLevel `json:"operationPermissions,omitzero"`
}

// AgentTrust has the requirements of an agent for its callers, an extension.
type AgentTrust struct {
	IdentityProvider IdentityProvider `json:"identityProvider" wire:"required"`
	// InheritedRoles are the roles of the creator; may be empty.
	InheritedRoles []KeycloakRole `json:"inheritedRoles" wire:"required"`
	// Certificate is a certificate in PEM.
	Certificate string `json:"certificate,omitempty"`
	// CertificateFingerprint is the SHA-256 of the certificate's DER, as lower-case pairs of
	// hex digits separated by colons.
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`
	// CreatorID is a UUID, another string such as system, or an integer.
	CreatorID StringOrInt `json:"creatorId" wire:"required"`
	// CreationTimestamp is a Unix time in seconds.
	CreationTimestamp int64 `json:"creationTimestamp" wire:"required"`
	// TrustVerificationRequired delays tasks until the caller's identity is verified.
	TrustVerificationRequired bool `json:"trustVerificationRequired" wire:"required"`
	// AllowedOperations maps operations to the minimum trust level.
	AllowedOperations map[string]TrustLevel `json:"allowedOperations" wire:"required"`
}

// AgentIdentity is the identity of an agent, an extension.
type AgentIdentity struct {
	// DID is did:bindu:author:name:id or did:key:z...
	DID string `json:"did" wire:"required"`
	// DIDDocument is free-form.
	DIDDocument map[string]any `json:"didDocument" wire:"required"`
	// AgentDNSURL is the URL of the agent's AgentDNS record.
	AgentDNSURL string `json:"agentdnsUrl,omitempty"`
	// Endpoint is the URL of the agent.
	Endpoint string `json:"endpoint,omitempty"`
	// PublicKey is a key in PEM or base58.
	PublicKey string `json:"publicKey" wire:"required"`
	// CSR is a certificate signing request in PEM.
	CSR string `json:"csr" wire:"required"`
}
