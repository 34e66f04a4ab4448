package a2a

import (
	"slices"
	"time"
)

// NegotiationStatus is the status of one proposal, an extension.
type NegotiationStatus string

// The statuses of proposals.
const (
	ProposalProposed  NegotiationStatus = "proposed"
	ProposalAccepted  NegotiationStatus = "accepted"
	ProposalRejected  NegotiationStatus = "rejected"
	ProposalCountered NegotiationStatus = "countered"
)

// EnumValues lists the values accepted on input.
func (NegotiationStatus) EnumValues() []string {
	return []string{"proposed", "accepted", "rejected", "countered"}
}

// CanMove reports whether a proposal in s may change to next: a proposal is
// answered once.
func (s NegotiationStatus) CanMove(next NegotiationStatus) bool {
	return s == ProposalProposed && next != s && slices.Contains(next.EnumValues(), string(next))
}

// NegotiationSessionStatus is the status of a negotiation, an extension.
type NegotiationSessionStatus string

// The statuses of negotiations.
const (
	SessionInitiated NegotiationSessionStatus = "initiated"
	SessionOngoing   NegotiationSessionStatus = "ongoing"
	SessionCompleted NegotiationSessionStatus = "completed"
	SessionRejected  NegotiationSessionStatus = "rejected"
)

// sessionOf is what the statuses of proposals mean for a session.
var sessionOf = map[AnySessionStatus]NegotiationSessionStatus{
	AnySessionStatus(ProposalProposed):  SessionInitiated,
	AnySessionStatus(ProposalCountered): SessionOngoing,
	AnySessionStatus(ProposalAccepted):  SessionCompleted,
}

// EnumValues lists the values accepted on input.
func (NegotiationSessionStatus) EnumValues() []string {
	return []string{"initiated", "ongoing", "completed", "rejected"}
}

// CanMove reports whether a session in s may change to next. Staying is allowed
// while the session goes on.
func (s NegotiationSessionStatus) CanMove(next NegotiationSessionStatus) bool {
	switch s {
	case SessionInitiated:
		return next == SessionInitiated || next == SessionOngoing || next == SessionRejected
	case SessionOngoing:
		return next == SessionOngoing || next == SessionCompleted || next == SessionRejected
	default:
		return false
	}
}

// AnySessionStatus is a [NegotiationSessionStatus], or a [NegotiationStatus] as
// some peers send it in place of one.
type AnySessionStatus string

// EnumValues lists the values accepted on input.
func (AnySessionStatus) EnumValues() []string {
	return []string{"initiated", "ongoing", "completed", "rejected", "proposed", "accepted", "countered"}
}

// Session returns the status of the session that s stands for.
func (s AnySessionStatus) Session() NegotiationSessionStatus {
	if status, ok := sessionOf[s]; ok {
		return status
	}
	return NegotiationSessionStatus(s)
}

// NegotiationProposal is an offer of one agent to another, an extension. A
// counter-offer is a proposal of its own with the agents swapped.
type NegotiationProposal struct {
	ID string `json:"proposalId" wire:"required"` // a UUID
	// FromAgent and ToAgent differ; each is a UUID or a DID.
	FromAgent string `json:"fromAgent" wire:"required"`
	ToAgent   string `json:"toAgent" wire:"required"`
	// Terms is what is offered. Those of an accepted proposal do not change.
	Terms     map[string]any    `json:"terms" wire:"required"`
	Timestamp time.Time         `json:"timestamp" wire:"required"`
	Status    NegotiationStatus `json:"status" wire:"required"`
}

// NegotiationContext is a negotiation between agents, an extension.
type NegotiationContext struct {
	ContextID string           `json:"contextId" wire:"required"`
	Status    AnySessionStatus `json:"status" wire:"required"`
	// Participants are UUIDs or DIDs, two or more.
	Participants []string `json:"participants" wire:"required"`
	// Proposals are the offers, oldest first.
	Proposals []NegotiationProposal `json:"proposals" wire:"required"`
}
