package a2a

// AgentCard describes an agent to its clients (A2A 0.3 section 5.5). The members from ID on
// are an extension that other agents' cards lack; [AgentCard.ValidateExtended] requires them.
// It has many fields because the protocol defines the card as one object.
type AgentCard struct {
	ProtocolVersion      string                    `json:"protocolVersion" wire:"required" v10:"-"`
	Name                 string                    `json:"name" wire:"required"`
	Description          string                    `json:"description" wire:"required"`
	URL                  string                    `json:"url" wire:"required" v10:"-"`
	PreferredTransport   string                    `json:"preferredTransport,omitempty" v10:"-"`
	AdditionalInterfaces []AgentInterface          `json:"additionalInterfaces,omitempty" v10:"-"`
	IconURL              string                    `json:"iconUrl,omitempty"`
	Provider             *AgentProvider            `json:"provider,omitempty"`
	Version              string                    `json:"version" wire:"required"`
	DocumentationURL     string                    `json:"documentationUrl,omitempty"`
	Capabilities         AgentCapabilities         `json:"capabilities" wire:"required" v10:"-"`
	SecuritySchemes      map[string]SecurityScheme `json:"securitySchemes,omitempty"`
	Security             []map[string][]string     `json:"security,omitempty" v10:"securityRequirements"`
	DefaultInputModes    []string                  `json:"defaultInputModes" wire:"required"`
	DefaultOutputModes   []string                  `json:"defaultOutputModes" wire:"required"`
	Skills               []AgentSkill              `json:"skills" wire:"required"`

	SupportsAuthenticatedExtendedCard bool `json:"supportsAuthenticatedExtendedCard,omitempty" v10:"-"`

	// Signatures are over the card's canonical form (RFC 8785).
	Signatures []AgentCardSignature `json:"signatures,omitempty"`

	// ID is a UUID.
	ID         string      `json:"id,omitempty" wire:"ext"`
	Kind       AgentKind   `json:"kind,omitempty" wire:"ext"`
	AgentTrust *AgentTrust `json:"agentTrust,omitempty" wire:"ext"`
	// ExecutionCost is the price in credits.
	ExecutionCost *AgentExecutionCost `json:"executionCost,omitempty" wire:"ext"`
	// NumHistorySessions is the number of sessions that the agent remembers, 0 or more.
	NumHistorySessions *int           `json:"numHistorySessions,omitempty" wire:"ext"`
	ExtraData          map[string]any `json:"extraData,omitzero" wire:"ext"`
	DebugMode          *bool          `json:"debugMode,omitempty" wire:"ext"`
	DebugLevel         DebugLevel     `json:"debugLevel,omitempty" wire:"ext"`
	Monitoring         *bool          `json:"monitoring,omitempty" wire:"ext"`
	Telemetry          *bool          `json:"telemetry,omitempty" wire:"ext"`
}

// AgentKind is the kind of agent that a card describes, an extension.
type AgentKind string

// The kinds of agents.
const (
	AgentKindAgent    AgentKind = "agent"
	AgentKindTeam     AgentKind = "team"
	AgentKindWorkflow AgentKind = "workflow"
)

// EnumValues returns the accepted values.
func (AgentKind) EnumValues() []string { return []string{"agent", "team", "workflow"} }

// DebugLevel is the amount of debug output of an agent, an extension. 0 means that it is not
// set.
type DebugLevel int

// The debug levels.
const (
	DebugBasic    DebugLevel = 1
	DebugDetailed DebugLevel = 2
)

// EnumNumbers returns the accepted values.
func (DebugLevel) EnumNumbers() []int64 { return []int64{1, 2} }

// AgentInterface is an additional address of an agent (A2A 0.3 section 5.5.5).
type AgentInterface struct {
	URL string `json:"url" wire:"required"`
	// Transport is JSONRPC, GRPC or HTTP+JSON, or another name.
	Transport string `json:"transport" wire:"required" v10:"protocolBinding"`
	// Description is an extension.
	Description string `json:"description,omitempty" wire:"ext"`
	// ProtocolVersion and Tenant are of A2A 1.0. Tenant is to be sent in the params of requests.
	ProtocolVersion string `json:"-" v10:"protocolVersion"`
	Tenant          string `json:"-" v10:"tenant,omitempty"`
}

// AgentCardSignature is a JSON Web Signature over a card (A2A 0.3 section 5.5.6).
type AgentCardSignature struct {
	// Protected is the protected header, base64url of JSON.
	Protected string `json:"protected" wire:"required"`
	// Signature is base64url.
	Signature string `json:"signature" wire:"required"`
	// Header is the unprotected header.
	Header map[string]any `json:"header,omitzero"`
}

// AgentProvider is the organization that runs an agent (A2A 0.3 section 5.5.1).
type AgentProvider struct {
	Organization string `json:"organization" wire:"required"`
	URL          string `json:"url" wire:"required"`
}

// AgentCapabilities are the optional features an agent offers (A2A 0.3 section
// 5.5.2).
type AgentCapabilities struct {
	Streaming              bool             `json:"streaming"`
	PushNotifications      bool             `json:"pushNotifications"`
	StateTransitionHistory bool             `json:"stateTransitionHistory,omitempty" wire:"ext"`
	Extensions             []AgentExtension `json:"extensions,omitempty"`
}

// AgentExtension is a protocol extension that an agent supports (A2A 0.3 section 5.5.2.1).
// URI may be a DID. If Required is set, clients must comply.
type AgentExtension struct {
	URI         string         `json:"uri" wire:"required"`
	Description string         `json:"description,omitempty"`
	Required    bool           `json:"required,omitempty"`
	Params      map[string]any `json:"params,omitzero"`
}

// AgentSkill is a capability of an agent (A2A 0.3 section 5.5.4). If its modes are empty,
// the modes of the card apply. The members from DocumentationPath on are an extension.
type AgentSkill struct {
	ID          string   `json:"id" wire:"required"`
	Name        string   `json:"name" wire:"required"`
	Description string   `json:"description" wire:"required"`
	Tags        []string `json:"tags" wire:"required"`
	Examples    []string `json:"examples,omitempty"`
	InputModes  []string `json:"inputModes,omitempty"`
	OutputModes []string `json:"outputModes,omitempty"`
	// Security lists the alternative ways to authenticate for this skill.
	Security []map[string][]string `json:"security,omitempty" v10:"securityRequirements"`

	// DocumentationPath is the location of the skill's documentation.
	DocumentationPath string `json:"documentationPath,omitempty" wire:"ext"`
	// DocumentationContent is the content of the skill's file.
	DocumentationContent string `json:"documentationContent,omitempty" wire:"ext"`
	// MarkdownContent is the body of the skill's SKILL.md.
	MarkdownContent    string         `json:"markdownContent,omitempty" wire:"ext"`
	CapabilitiesDetail map[string]any `json:"capabilitiesDetail,omitzero" wire:"ext"`
	// Requirements are dependencies, such as packages.
	Requirements map[string]any `json:"requirements,omitzero" wire:"ext"`
	// Performance describes speed and limits.
	Performance map[string]any `json:"performance,omitzero" wire:"ext"`
	Version     string         `json:"version,omitempty" wire:"ext"`
	Author      string         `json:"author,omitempty" wire:"ext"`
	// AllowedTools are the tools that the skill may use.
	AllowedTools []string `json:"allowedTools,omitempty" wire:"ext"`
	// Assessment are hints for negotiation, such as keywords.
	Assessment map[string]any `json:"assessment,omitzero" wire:"ext"`
}
