package a2a

import "time"

// AgentExecutionCost is the price of an agent in credits, an extension.
type AgentExecutionCost struct {
	AgentID   string `json:"agentId" wire:"required"`
	AgentName string `json:"agentName" wire:"required"`
	// CreditsPerRequest is the price of one run, 0 or more.
	CreditsPerRequest int `json:"creditsPerRequest" wire:"required"`
	// CreatorDID is who earns the credits.
	CreatorDID string `json:"creatorDid" wire:"required"`
	// MinimumTrustLevel is the lowest level of a caller.
	MinimumTrustLevel TrustLevel `json:"minimumTrustLevel" wire:"required"`
}

// ExecutionRequest asks for a run against credits, an extension.
type ExecutionRequest struct {
	// RequestID, a UUID, makes repetition safe: the same request runs once.
	RequestID string `json:"requestId" wire:"required"`
	// ExecutorDID is who pays: the authenticated caller.
	ExecutorDID string `json:"executorDid" wire:"required"`
	AgentID     string `json:"agentId" wire:"required"`
	// InputData is text; JSON is put into it as text.
	InputData string `json:"inputData" wire:"required"`
	// EstimatedCredits is the most the caller agrees to pay, 0 or more.
	EstimatedCredits int `json:"estimatedCredits" wire:"required"`
	// TrustLevel is a claim; what was verified bounds it.
	TrustLevel TrustLevel `json:"trustLevel" wire:"required"`
}

// ExecutionResponse answers an [ExecutionRequest], an extension.
type ExecutionResponse struct {
	RequestID   string `json:"requestId" wire:"required"`   // a UUID
	ExecutionID string `json:"executionId" wire:"required"` // a UUID
	Success     bool   `json:"success" wire:"required"`
	// CreditsCharged is 0 when nothing was charged.
	CreditsCharged int `json:"creditsCharged" wire:"required"`
	// TransactionID, a UUID, is there if and only if CreditsCharged is above 0.
	TransactionID string `json:"transactionId,omitempty"`
	// OutputData is the result of a success.
	OutputData string `json:"outputData,omitempty"`
	// ErrorMessage is the reason of a failure.
	ErrorMessage string `json:"errorMessage,omitempty"`
	// ExecutionTime is when the run ended, not how long it took.
	ExecutionTime time.Time `json:"executionTime" wire:"required"`
}
