package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// SecurityScheme is a way to authenticate to an agent (A2A 0.3 section 5.5.3):
// an [HTTPAuthSecurityScheme], [APIKeySecurityScheme], [OAuth2SecurityScheme],
// [OpenIDConnectSecurityScheme] or [MutualTLSSecurityScheme]. No other type
// implements it.
type SecurityScheme interface {
	PushAuthentication
	// SchemeType returns the discriminator: "http", "apiKey", "oauth2",
	// "openIdConnect" or "mutualTLS".
	SchemeType() string
}

var schemes = map[string]SecurityScheme{
	"http": HTTPAuthSecurityScheme{}, "apiKey": APIKeySecurityScheme{}, "oauth2": OAuth2SecurityScheme{},
	"openIdConnect": OpenIDConnectSecurityScheme{}, "mutualTLS": MutualTLSSecurityScheme{},
}

var _ = wire.Union("type", schemes)

// HTTPAuthSecurityScheme is a scheme of the Authorization header.
type HTTPAuthSecurityScheme struct {
	_ struct{} `wire:"const=type:http,required"`
	// Scheme is a name from the IANA registry in any case, such as bearer.
	Scheme string `json:"scheme" wire:"required"`
	// BearerFormat is a hint about the format of bearer tokens, such as JWT.
	BearerFormat string `json:"bearerFormat,omitempty"`
	Description  string `json:"description,omitempty"`
}

// APIKeyLocation is the location of an API key in a request.
type APIKeyLocation string

// The locations of API keys.
const (
	InQuery  APIKeyLocation = "query"
	InHeader APIKeyLocation = "header"
	InCookie APIKeyLocation = "cookie"
)

// EnumValues returns the accepted values.
func (APIKeyLocation) EnumValues() []string { return []string{"query", "header", "cookie"} }

// APIKeySecurityScheme authenticates with a key in a header, a cookie or the query.
type APIKeySecurityScheme struct {
	_ struct{} `wire:"const=type:apiKey,required"`
	// Name is the name of the header, cookie or query parameter.
	Name string `json:"name" wire:"required"`
	// In is the key's location. The member is also accepted as in_, because some peers send this
	// name.
	In          APIKeyLocation `json:"in" wire:"required,alias=in_" v10:"location"`
	Description string         `json:"description,omitempty"`
}

// OAuth2SecurityScheme authenticates with OAuth 2.0.
type OAuth2SecurityScheme struct {
	_     struct{}   `wire:"const=type:oauth2,required"`
	Flows OAuthFlows `json:"flows" wire:"required"`
	// MetadataURL is the https URL of the server's metadata (RFC 8414).
	MetadataURL string `json:"oauth2MetadataUrl,omitempty"`
	Description string `json:"description,omitempty"`
}

// OpenIDConnectSecurityScheme authenticates with OpenID Connect.
type OpenIDConnectSecurityScheme struct {
	_ struct{} `wire:"const=type:openIdConnect,required"`
	// URL is the https URL of the discovery document.
	URL         string `json:"openIdConnectUrl" wire:"required"`
	Description string `json:"description,omitempty"`
}

// MutualTLSSecurityScheme authenticates with a client certificate.
type MutualTLSSecurityScheme struct {
	_           struct{} `wire:"const=type:mutualTLS,required"`
	Description string   `json:"description,omitempty"`
}

// SchemeType returns "http".
func (HTTPAuthSecurityScheme) SchemeType() string { return "http" }

// SchemeType returns "apiKey".
func (APIKeySecurityScheme) SchemeType() string { return "apiKey" }

// SchemeType returns "oauth2".
func (OAuth2SecurityScheme) SchemeType() string { return "oauth2" }

// SchemeType returns "openIdConnect".
func (OpenIDConnectSecurityScheme) SchemeType() string { return "openIdConnect" }

// SchemeType returns "mutualTLS".
func (MutualTLSSecurityScheme) SchemeType() string { return "mutualTLS" }

func (HTTPAuthSecurityScheme) pushAuthentication()      {}
func (APIKeySecurityScheme) pushAuthentication()        {}
func (OAuth2SecurityScheme) pushAuthentication()        {}
func (OpenIDConnectSecurityScheme) pushAuthentication() {}
func (MutualTLSSecurityScheme) pushAuthentication()     {}

// OAuthFlows are the OAuth 2.0 flows that an agent supports, at least one.
type OAuthFlows struct {
	AuthorizationCode *AuthorizationCodeOAuthFlow `json:"authorizationCode,omitempty"`
	ClientCredentials *ClientCredentialsOAuthFlow `json:"clientCredentials,omitempty"`
	// Implicit and Password are deprecated in A2A 1.0.
	Implicit *ImplicitOAuthFlow `json:"implicit,omitempty"`
	Password *PasswordOAuthFlow `json:"password,omitempty"`
	// DeviceCode is of A2A 1.0.
	DeviceCode *DeviceCodeOAuthFlow `json:"deviceCode,omitempty"`
}

// AuthorizationCodeOAuthFlow is the authorization code flow. All URLs are https. Scopes maps
// scopes to their descriptions.
type AuthorizationCodeOAuthFlow struct {
	AuthorizationURL string            `json:"authorizationUrl" wire:"required"`
	TokenURL         string            `json:"tokenUrl" wire:"required"`
	RefreshURL       string            `json:"refreshUrl,omitempty"`
	Scopes           map[string]string `json:"scopes" wire:"required"`
	// PKCERequired, of A2A 1.0, means that clients must use PKCE (RFC 7636).
	PKCERequired bool `json:"pkceRequired,omitempty"`
}

// DeviceCodeOAuthFlow is the device authorization flow (RFC 8628). Its members are as in
// [AuthorizationCodeOAuthFlow].
type DeviceCodeOAuthFlow struct {
	DeviceAuthorizationURL string            `json:"deviceAuthorizationUrl" wire:"required"`
	TokenURL               string            `json:"tokenUrl" wire:"required"`
	RefreshURL             string            `json:"refreshUrl,omitempty"`
	Scopes                 map[string]string `json:"scopes" wire:"required"`
}

// ClientCredentialsOAuthFlow is the client credentials flow. Its members are as in
// [AuthorizationCodeOAuthFlow].
type ClientCredentialsOAuthFlow struct {
	TokenURL   string            `json:"tokenUrl" wire:"required"`
	RefreshURL string            `json:"refreshUrl,omitempty"`
	Scopes     map[string]string `json:"scopes" wire:"required"`
}

// ImplicitOAuthFlow is the implicit flow. Its members are as in
// [AuthorizationCodeOAuthFlow].
type ImplicitOAuthFlow struct {
	AuthorizationURL string            `json:"authorizationUrl" wire:"required"`
	RefreshURL       string            `json:"refreshUrl,omitempty"`
	Scopes           map[string]string `json:"scopes" wire:"required"`
}

// PasswordOAuthFlow is the resource owner password flow. Its members
// are as in [AuthorizationCodeOAuthFlow].
type PasswordOAuthFlow struct {
	TokenURL   string            `json:"tokenUrl" wire:"required"`
	RefreshURL string            `json:"refreshUrl,omitempty"`
	Scopes     map[string]string `json:"scopes" wire:"required"`
}
