package a2a

import "slices"

// TrustLevel is how much a caller may do, an extension. Levels are ordered:
// [TrustLevel.AtLeast] compares them.
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

// EnumValues lists the values accepted on input, highest first.
func (TrustLevel) EnumValues() []string {
	return []string{
		"super_admin", "admin", "manager", "operator", "editor",
		"analyst", "auditor", "support", "viewer", "guest",
	}
}

// Rank returns 0 for guest up to 9 for super_admin, and -1 for what is no level.
func (l TrustLevel) Rank() int {
	levels := l.EnumValues()
	if i := slices.Index(levels, string(l)); i >= 0 {
		return len(levels) - 1 - i
	}
	return -1
}

// AtLeast reports whether l is need or higher. It is false when either is no
// level, so that a spelling mistake grants nothing.
func (l TrustLevel) AtLeast(need TrustLevel) bool {
	return need.Rank() >= 0 && l.Rank() >= need.Rank()
}

// Lower returns the lower of two levels: what a claim is worth that was verified
// only up to other.
func (l TrustLevel) Lower(other TrustLevel) TrustLevel {
	if l.Rank() < other.Rank() {
		return l
	}
	return other
}

// IdentityProvider is who authenticates callers, an extension.
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

// EnumValues lists the values accepted on input.
func (IdentityProvider) EnumValues() []string {
	return []string{"keycloak", "azure_ad", "okta", "auth0", "custom", "hydra"}
}

// KeycloakRole is a role of an identity provider, an extension.
type KeycloakRole struct {
	ID   string `json:"roleId" wire:"required"` // a UUID
	Name string `json:"roleName" wire:"required"`
	// Permissions are dotted names such as agent.create; there may be none.
	Permissions []string `json:"permissions" wire:"required"`
	// TrustLevel is what the role confers.
	TrustLevel TrustLevel `json:"trustLevel" wire:"required"`
	RealmName  string     `json:"realmName" wire:"required"`
	// ExternalMappings maps another provider to the name of the same role there.
	ExternalMappings map[string]string `json:"externalMappings,omitzero"`
	// OperationPermissions maps an operation to the lowest level that may do it.
	OperationPermissions map[string]TrustLevel `json:"operationPermissions,omitzero"`
}

// AgentTrust is what an agent demands of its callers, an extension.
type AgentTrust struct {
	IdentityProvider IdentityProvider `json:"identityProvider" wire:"required"`
	// InheritedRoles are those of the creator; there may be none.
	InheritedRoles []KeycloakRole `json:"inheritedRoles" wire:"required"`
	// Certificate is PEM.
	Certificate string `json:"certificate,omitempty"`
	// CertificateFingerprint is the SHA-256 of the certificate's DER, in lower-case
	// pairs of hex digits joined by colons.
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`
	// CreatorID is a UUID, another string such as system, or an integer.
	CreatorID StringOrInt `json:"creatorId" wire:"required"`
	// CreationTimestamp is in seconds of Unix time.
	CreationTimestamp int64 `json:"creationTimestamp" wire:"required"`
	// TrustVerificationRequired holds tasks back until the caller's identity is proven.
	TrustVerificationRequired bool `json:"trustVerificationRequired" wire:"required"`
	// AllowedOperations maps an operation to the lowest level that may do it.
	AllowedOperations map[string]TrustLevel `json:"allowedOperations" wire:"required"`
}

// AgentIdentity is who an agent is, an extension.
type AgentIdentity struct {
	// DID is did:bindu:author:name:id or did:key:z...
	DID string `json:"did" wire:"required"`
	// DIDDocument is free-form.
	DIDDocument map[string]any `json:"didDocument" wire:"required"`
	// AgentDNSURL is the agent's AgentDNS record.
	AgentDNSURL string `json:"agentdnsUrl,omitempty"`
	// Endpoint is the URL for contact.
	Endpoint string `json:"endpoint,omitempty"`
	// PublicKey is PEM or base58.
	PublicKey string `json:"publicKey" wire:"required"`
	// CSR is a certificate signing request in PEM.
	CSR string `json:"csr" wire:"required"`
}
