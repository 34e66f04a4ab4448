package a2a

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

func isZero(v any) bool { return reflect.ValueOf(v).IsZero() }

// Validate reports all violated rules.
func (n NegotiationProposal) Validate() error {
	var p Problems
	p.uuid("proposalId", n.ID)
	p.agent("fromAgent", n.FromAgent)
	p.agent("toAgent", n.ToAgent)
	p.Check(n.FromAgent != n.ToAgent, "toAgent", "must differ from fromAgent")
	p.Check(n.Terms != nil, "terms", "is required")
	return p.Err()
}

// ValidateMove reports all rules that the update of a proposal to next violates. A proposal is
// answered at most once, and its parties and terms do not change.
func (n NegotiationProposal) ValidateMove(next NegotiationProposal) error {
	var p Problems
	p.Check(n.ID == next.ID, "proposalId", "must not change")
	p.Check(n.FromAgent == next.FromAgent && n.ToAgent == next.ToAgent, "toAgent", "and fromAgent must not change")
	p.Check(n.Status == next.Status || n.Status.CanMove(next.Status), "status", "is %s and cannot become %s", n.Status, Quote(string(next.Status)))
	p.Check(reflect.DeepEqual(n.Terms, next.Terms), "terms", "must not change; a counter-offer is another proposal")
	return p.Err()
}

// ValidateCounter reports all rules that counter, a counter-offer to n, violates. It must be a
// new proposal with the agents swapped.
func (n NegotiationProposal) ValidateCounter(counter NegotiationProposal) error {
	var p Problems
	p.In("", counter.Validate())
	p.Check(counter.ID != n.ID, "proposalId", "must differ from that of the original proposal")
	p.Check(counter.FromAgent == n.ToAgent, "fromAgent", "must be the toAgent of the original proposal")
	p.Check(counter.ToAgent == n.FromAgent, "toAgent", "must be the fromAgent of the original proposal")
	p.Check(counter.Status == ProposalProposed, "status", "is %s, want proposed", Quote(string(counter.Status)))
	return p.Err()
}

// Validate reports all violated rules.
func (n NegotiationContext) Validate() error {
	var p Problems
	p.notEmpty("contextId", n.ContextID)
	p.Check(len(n.Participants) >= 2, "participants", "has %d agents, want 2 or more", len(n.Participants))
	seen := make(map[string]bool)
	for i, agent := range n.Participants {
		p.agent(Index("participants", i), agent)
		p.Check(!seen[agent], Index("participants", i), "occurs more than once")
		seen[agent] = true
	}
	for i, proposal := range n.Proposals {
		p.In(Index("proposals", i), proposal.Validate())
	}
	return p.Err()
}

// Validate reports all violated rules.
func (c AgentExecutionCost) Validate() error {
	var p Problems
	p.notEmpty("agentId", c.AgentID)
	p.Check(c.CreditsPerRequest >= 0, "creditsPerRequest", "is %d, want 0 or more", c.CreditsPerRequest)
	p.did("creatorDid", c.CreatorDID)
	p.level("minimumTrustLevel", c.MinimumTrustLevel)
	return p.Err()
}

// Validate reports all violated rules.
func (r ExecutionRequest) Validate() error {
	var p Problems
	p.uuid("requestId", r.RequestID)
	p.did("executorDid", r.ExecutorDID)
	p.notEmpty("agentId", r.AgentID)
	p.Check(r.EstimatedCredits >= 0, "estimatedCredits", "is %d, want 0 or more", r.EstimatedCredits)
	p.level("trustLevel", r.TrustLevel)
	return p.Err()
}

// ValidateFor reports why the caller cannot execute the request at the given price, in
// addition to [ExecutionRequest.Validate]. verified is the verified trust level of the caller.
func (r ExecutionRequest) ValidateFor(cost AgentExecutionCost, callerDID string, verified TrustLevel) error {
	var p Problems
	p.Check(r.ExecutorDID == callerDID, "executorDid", "is not the caller")
	p.Check(r.AgentID == cost.AgentID, "agentId", "is not the agent of the price")
	p.Check(r.EstimatedCredits >= cost.CreditsPerRequest, "estimatedCredits", "is %d, the price is %d", r.EstimatedCredits, cost.CreditsPerRequest)
	p.Check(r.TrustLevel.Lower(verified).AtLeast(cost.MinimumTrustLevel), "trustLevel", "is too low, want %s or higher", cost.MinimumTrustLevel)
	return p.Err()
}

// Validate reports all violated rules.
func (r ExecutionResponse) Validate() error {
	var p Problems
	p.uuid("requestId", r.RequestID)
	p.uuid("executionId", r.ExecutionID)
	p.Check(r.CreditsCharged >= 0, "creditsCharged", "is %d, want 0 or more", r.CreditsCharged)
	p.Check(r.Success || r.OutputData == "", "outputData", "must be absent if success is false")
	p.Check(!r.Success || r.ErrorMessage == "", "errorMessage", "must be absent if success is true")
	p.Check(r.CreditsCharged > 0 || r.TransactionID == "", "transactionId", "must be absent if nothing was charged")
	switch {
	case r.CreditsCharged <= 0:
	case r.TransactionID == "":
		p.Add("transactionId", "is required if credits were charged")
	default:
		p.uuid("transactionId", r.TransactionID)
	}
	return p.Err()
}

func (p *Problems) level(path string, l TrustLevel) {
	p.Check(l.Rank() >= 0, path, "is %s, want one of %s", Quote(string(l)), strings.Join(l.EnumValues(), ", "))
}

func (p *Problems) levels(path string, operations map[string]TrustLevel) {
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		p.level(path+"."+name, operations[name])
	}
}

// Validate reports all violated rules.
func (r KeycloakRole) Validate() error {
	var p Problems
	p.uuid("roleId", r.ID)
	p.notEmpty("roleName", r.Name)
	p.level("trustLevel", r.TrustLevel)
	p.levels("operationPermissions", r.OperationPermissions)
	return p.Err()
}

// Validate reports all violated rules. If both certificate and fingerprint are present, they
// must match.
func (t AgentTrust) Validate() error {
	var p Problems
	for i, role := range t.InheritedRoles {
		p.In(Index("inheritedRoles", i), role.Validate())
	}
	p.Check(!t.CreatorID.IsZero(), "creatorId", "is required")
	p.levels("allowedOperations", t.AllowedOperations)
	p.fingerprint(t.Certificate, t.CertificateFingerprint)
	return p.Err()
}

func (p *Problems) fingerprint(certificate, fingerprint string) {
	if certificate == "" {
		return
	}
	block, _ := pem.Decode([]byte(certificate))
	if block == nil || block.Type != "CERTIFICATE" {
		p.Add("certificate", "is not a PEM certificate")
		return
	}
	if want := Fingerprint(block.Bytes); fingerprint != "" && fingerprint != want {
		p.Add("certificateFingerprint", "is %s, the certificate's is %s", Quote(fingerprint), want)
	}
}

// Fingerprint returns the SHA-256 of a certificate's DER in the format of
// [AgentTrust.CertificateFingerprint].
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	pairs := make([]string, len(sum))
	for i, b := range sum {
		pairs[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(pairs, ":")
}

// Validate reports all violated rules.
func (a AgentIdentity) Validate() error {
	var p Problems
	p.did("did", a.DID)
	p.Check(a.DIDDocument != nil, "didDocument", "is required")
	if a.AgentDNSURL != "" {
		p.absolute("agentdnsUrl", a.AgentDNSURL)
	}
	if a.Endpoint != "" {
		p.absolute("endpoint", a.Endpoint)
	}
	p.notEmpty("publicKey", a.PublicKey)
	return p.Err()
}

// Validate reports all violated rules of the format. It does not verify the signature.
func (s AgentCardSignature) Validate() error {
	var p Problems
	p.base64url("protected", s.Protected)
	p.base64url("signature", s.Signature)
	return p.Err()
}

func (p *Problems) base64url(path, s string) {
	if _, err := base64.RawURLEncoding.DecodeString(s); err != nil || s == "" {
		p.Add(path, "must be base64url without padding")
	}
}
