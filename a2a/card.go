package a2a

import "encoding/json"

// AgentCard describes an agent to its clients (A2A 0.3 section 5.5).
type AgentCard struct {
	ProtocolVersion      string                     `json:"protocolVersion" wire:"required"`
	Name                 string                     `json:"name" wire:"required"`
	Description          string                     `json:"description" wire:"required"`
	URL                  string                     `json:"url" wire:"required"`
	PreferredTransport   string                     `json:"preferredTransport,omitempty"`
	AdditionalInterfaces []AgentInterface           `json:"additionalInterfaces,omitempty"`
	IconURL              string                     `json:"iconUrl,omitempty"`
	Provider             *AgentProvider             `json:"provider,omitempty"`
	Version              string                     `json:"version" wire:"required"`
	DocumentationURL     string                     `json:"documentationUrl,omitempty"`
	Capabilities         AgentCapabilities          `json:"capabilities" wire:"required"`
	SecuritySchemes      map[string]json.RawMessage `json:"securitySchemes,omitempty"`
	Security             []map[string][]string      `json:"security,omitempty"`
	DefaultInputModes    []string                   `json:"defaultInputModes" wire:"required"`
	DefaultOutputModes   []string                   `json:"defaultOutputModes" wire:"required"`
	Skills               []AgentSkill               `json:"skills" wire:"required"`

	SupportsAuthenticatedExtendedCard bool `json:"supportsAuthenticatedExtendedCard,omitempty"`
}

// AgentInterface is one more address of an agent.
type AgentInterface struct {
	URL       string `json:"url" wire:"required"`
	Transport string `json:"transport" wire:"required"`
}

// AgentProvider is who runs an agent.
type AgentProvider struct {
	Organization string `json:"organization" wire:"required"`
	URL          string `json:"url" wire:"required"`
}

// AgentCapabilities are the optional features an agent offers.
type AgentCapabilities struct {
	Streaming              bool             `json:"streaming"`
	PushNotifications      bool             `json:"pushNotifications"`
	StateTransitionHistory bool             `json:"stateTransitionHistory"`
	Extensions             []AgentExtension `json:"extensions,omitempty"`
}

// AgentExtension is an extension of the protocol that an agent knows.
type AgentExtension struct {
	URI         string         `json:"uri" wire:"required"`
	Description string         `json:"description,omitempty"`
	Required    bool           `json:"required,omitempty"`
	Params      map[string]any `json:"params,omitempty"`
}

// AgentSkill is something an agent can do.
type AgentSkill struct {
	ID          string   `json:"id" wire:"required"`
	Name        string   `json:"name" wire:"required"`
	Description string   `json:"description" wire:"required"`
	Tags        []string `json:"tags" wire:"required"`
	Examples    []string `json:"examples,omitempty"`
	InputModes  []string `json:"inputModes,omitempty"`
	OutputModes []string `json:"outputModes,omitempty"`
}
