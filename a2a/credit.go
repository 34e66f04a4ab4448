package a2a

import "time"

// AgentExecutionCost is the price of an agent in credits, an extension.
type AgentExecutionCost struct {
	AgentID   string `json:"agentId" wire:"required"`
	AgentName string `json:"agentName" wire:"required"`
	// CreditsPerRequest is the price of one execution, 0 or more.
	CreditsPerRequest int `json:"creditsPerRequest" wire:"required"`
	// CreatorDID identifies the receiver of the credits.
	CreatorDID string `json:"creatorDid" wire:"required"`
	// MinimumTrustLevel is the minimum trust level of a caller.
	MinimumTrustLevel TrustLevel `json:"minimumTrustLevel" wire:"required"`
}

// ExecutionRequest requests an execution that is paid in credits, an extension.
type ExecutionRequest struct {
	// RequestID is a UUID that makes the request safe to repeat: it is executed once.
	RequestID string `json:"requestId" wire:"required"`
	// ExecutorDID identifies the payer, which is the authenticated caller.
	ExecutorDID string `json:"executorDid" wire:"required"`
	AgentID     string `json:"agentId" wire:"required"`
	// InputData is text; JSON must be encoded as text.
	InputData string `json:"inputData" wire:"required"`
	// EstimatedCredits is the maximum that the caller agrees to pay, 0 or more.
	EstimatedCredits int `json:"estimatedCredits" wire:"required"`
	// TrustLevel is a claim, limited by the verified level.
	TrustLevel TrustLevel `json:"trustLevel" wire:"required"`
}

// ExecutionResponse is the response to an [ExecutionRequest], an extension.
type ExecutionResponse struct {
	RequestID   string `json:"requestId" wire:"required"`   // a UUID
	ExecutionID string `json:"executionId" wire:"required"` // a UUID
	Success     bool   `json:"success" wire:"required"`
	// CreditsCharged is 0 if nothing was charged.
	CreditsCharged int `json:"creditsCharged" wire:"required"`
	// TransactionID is a UUID, present if and only if CreditsCharged is positive.
	TransactionID string `json:"transactionId,omitempty"`
	// OutputData is the result if Success is set.
	OutputData string `json:"outputData,omitempty"`
	// ErrorMessage is the reason if Success is not set.
	ErrorMessage string `json:"errorMessage,omitempty"`
	// ExecutionTime is when the execution ended, not its duration.
	ExecutionTime time.Time `json:"executionTime" wire:"required"`
}
