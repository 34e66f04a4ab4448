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

// EnumValues returns the accepted values.
func (NegotiationStatus) EnumValues() []string {
	return []string{"proposed", "accepted", "rejected", "countered"}
}

// CanMove reports whether a proposal with status s may change to next. A proposal is answered
// once.
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

// sessionStatusOf maps statuses of proposals to statuses of sessions.
var sessionStatusOf = map[AnySessionStatus]NegotiationSessionStatus{
	AnySessionStatus(ProposalProposed):  SessionInitiated,
	AnySessionStatus(ProposalCountered): SessionOngoing,
	AnySessionStatus(ProposalAccepted):  SessionCompleted,
}

// EnumValues returns the accepted values.
func (NegotiationSessionStatus) EnumValues() []string {
	return []string{"initiated", "ongoing", "completed", "rejected"}
}

// CanMove reports whether a session with status s may change to next. An unfinished session
// may keep its status.
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

// AnySessionStatus is a [NegotiationSessionStatus], or a [NegotiationStatus] that some peers
// send instead.
type AnySessionStatus string

// EnumValues returns the accepted values.
func (AnySessionStatus) EnumValues() []string {
	return []string{"initiated", "ongoing", "completed", "rejected", "proposed", "accepted", "countered"}
}

// Session returns the session status that corresponds to s.
func (s AnySessionStatus) Session() NegotiationSessionStatus {
	if status, ok := sessionStatusOf[s]; ok {
		return status
	}
	return NegotiationSessionStatus(s)
}

// NegotiationProposal is an offer of one agent to another, an extension. A counter-offer is a
// new proposal with the agents swapped.
type NegotiationProposal struct {
	ID string `json:"proposalId" wire:"required"` // a UUID
	// FromAgent and ToAgent differ; each is a UUID or a DID.
	FromAgent string `json:"fromAgent" wire:"required"`
	ToAgent   string `json:"toAgent" wire:"required"`
	// Terms are the terms of the offer. They must not change after it is accepted.
	Terms     map[string]any    `json:"terms" wire:"required"`
	Timestamp time.Time         `json:"timestamp" wire:"required"`
	Status    NegotiationStatus `json:"status" wire:"required"`
}

// NegotiationContext is a negotiation between agents, an extension.
type NegotiationContext struct {
	ContextID string           `json:"contextId" wire:"required"`
	Status    AnySessionStatus `json:"status" wire:"required"`
	// Participants are two or more UUIDs or DIDs.
	Participants []string `json:"participants" wire:"required"`
	// Proposals are the offers, oldest first.
	Proposals []NegotiationProposal `json:"proposals" wire:"required"`
}
