package v10_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

const cardJSON = `{"name":"n","description":"d","version":"1","supportedInterfaces":[
		{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"acme"},
		{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
		{"url":"https://a.example/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}],
	"provider":{"organization":"o","url":"https://o.example"},"iconUrl":"https://a.example/i.png","documentationUrl":"https://a.example/doc",
	"capabilities":{"streaming":true,"pushNotifications":false,"extendedAgentCard":true,"extensions":[{"uri":"u","required":true,"params":{"k":1}}]},
	"securitySchemes":{
		"key":{"apiKeySecurityScheme":{"name":"X-Key","location":"header","description":"d"}},
		"http":{"httpAuthSecurityScheme":{"scheme":"bearer","bearerFormat":"JWT"}},
		"oidc":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://o.example/.well-known"}},
		"tls":{"mtlsSecurityScheme":{"description":"d"}},
		"device":{"oauth2SecurityScheme":{"flows":{"deviceCode":{"deviceAuthorizationUrl":"https://o.example/d","tokenUrl":"https://o.example/t","scopes":{"s":"text"}}}}},
		"code":{"oauth2SecurityScheme":{"oauth2MetadataUrl":"https://o.example/m","flows":{"authorizationCode":{
			"authorizationUrl":"https://o.example/a","tokenUrl":"https://o.example/t","refreshUrl":"https://o.example/r","scopes":{},"pkceRequired":true}}}}},
	"securityRequirements":[{"schemes":{"code":{"list":["s"]},"tls":{}}},{"schemes":{"http":{}}}],
	"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain","image/png"],
	"skills":[{"id":"s","name":"n","description":"d","tags":["t"],"examples":["e"],"inputModes":["a/b"],"outputModes":["c/d"],"securityRequirements":[{"schemes":{"http":{}}}]}],
	"signatures":[{"protected":"e30","signature":"c2ln","header":{"kid":"k"}}]}`

func agentCard() *a2a.AgentCard {
	return &a2a.AgentCard{
		Name: "n", Description: "d", Version: "1", URL: "https://a.example/", PreferredTransport: "JSONRPC", ProtocolVersion: "1.0",
		AdditionalInterfaces: []a2a.AgentInterface{
			{URL: "https://a.example/", Transport: "JSONRPC", ProtocolVersion: "1.0", Tenant: "acme"},
			{URL: "https://a.example/", Transport: "JSONRPC", ProtocolVersion: "0.3"},
			{URL: "https://a.example/rest", Transport: "HTTP+JSON", ProtocolVersion: "1.0"},
		},
		Provider: &a2a.AgentProvider{Organization: "o", URL: "https://o.example"}, IconURL: "https://a.example/i.png", DocumentationURL: "https://a.example/doc",
		Capabilities:                      a2a.AgentCapabilities{Streaming: true, Extensions: []a2a.AgentExtension{{URI: "u", Required: true, Params: map[string]any{"k": 1.0}}}},
		SupportsAuthenticatedExtendedCard: true,
		SecuritySchemes: map[string]a2a.SecurityScheme{
			"key":    a2a.APIKeySecurityScheme{Name: "X-Key", In: a2a.InHeader, Description: "d"},
			"http":   a2a.HTTPAuthSecurityScheme{Scheme: "bearer", BearerFormat: "JWT"},
			"oidc":   a2a.OpenIDConnectSecurityScheme{URL: "https://o.example/.well-known"},
			"tls":    a2a.MutualTLSSecurityScheme{Description: "d"},
			"device": a2a.OAuth2SecurityScheme{Flows: a2a.OAuthFlows{DeviceCode: &a2a.DeviceCodeOAuthFlow{DeviceAuthorizationURL: "https://o.example/d", TokenURL: "https://o.example/t", Scopes: map[string]string{"s": "text"}}}},
			"code": a2a.OAuth2SecurityScheme{MetadataURL: "https://o.example/m", Flows: a2a.OAuthFlows{AuthorizationCode: &a2a.AuthorizationCodeOAuthFlow{
				AuthorizationURL: "https://o.example/a", TokenURL: "https://o.example/t", RefreshURL: "https://o.example/r", Scopes: map[string]string{}, PKCERequired: true,
			}}},
		},
		Security:          []map[string][]string{{"code": {"s"}, "tls": {}}, {"http": {}}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain", "image/png"},
		Skills: []a2a.AgentSkill{{
			ID: "s", Name: "n", Description: "d", Tags: []string{"t"}, Examples: []string{"e"}, InputModes: []string{"a/b"}, OutputModes: []string{"c/d"},
			Security: []map[string][]string{{"http": {}}},
		}},
		Signatures: []a2a.AgentCardSignature{{Protected: "e30", Signature: "c2ln", Header: map[string]any{"kid": "k"}}},
	}
}

func TestCardInBothDirections(t *testing.T) {
	t.Parallel()
	var back a2a.AgentCard
	if err := (v10.Codec{}).DecodeResult([]byte(cardJSON), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(agentCard(), &back, ignoreConstants); diff != "" {
		t.Errorf("DecodeResult() (-want +got):\n%s", diff)
	}
	if err := back.Validate(); err != nil {
		t.Errorf("Validate() of the card = %v", err)
	}
	codec, method := v10.Codec{Tenant: "acme"}, a2a.Method{Name: a2a.MethodExtendedCard}
	model := agentCard()
	// Members that A2A 1.0 lacks are omitted, and the URL and transport are the first interface.
	model.ID, model.DebugMode, model.Capabilities.StateTransitionHistory, model.Skills[0].Author = "i", ptr(true), false, "x"
	model.AdditionalInterfaces = []a2a.AgentInterface{{URL: "https://a.example/", Transport: "JSONRPC"}, model.AdditionalInterfaces[2]}
	got, err := codec.AppendCard(nil, model)
	if err != nil || !sameJSON(t, string(got), cardJSON) {
		t.Errorf("AppendCard() = %s, %v, want %s", got, err, cardJSON)
	}
	if got, err := codec.AppendResult(nil, &method, agentCard()); err != nil || !sameJSON(t, string(got), cardJSON) {
		t.Errorf("AppendResult() = %s, %v, want %s", got, err, cardJSON)
	}
}

func TestCardHasOneFlowPerScheme(t *testing.T) {
	t.Parallel()
	client := &a2a.ClientCredentialsOAuthFlow{TokenURL: "https://o.example/t", Scopes: map[string]string{}}
	implicit := &a2a.ImplicitOAuthFlow{AuthorizationURL: "https://o.example/a", Scopes: map[string]string{}}
	password := &a2a.PasswordOAuthFlow{TokenURL: "https://o.example/t", Scopes: map[string]string{}}
	for want, flows := range map[string]a2a.OAuthFlows{
		`{"clientCredentials":{"tokenUrl":"https://o.example/t","scopes":{}}}`: {ClientCredentials: client, Implicit: implicit, Password: password},
		`{"implicit":{"authorizationUrl":"https://o.example/a","scopes":{}}}`:  {Implicit: implicit, Password: password},
		`{"password":{"tokenUrl":"https://o.example/t","scopes":{}}}`:          {Password: password},
	} {
		method := a2a.Method{}
		if got, err := (v10.Codec{}).AppendResult(nil, &method, flows); err != nil || string(got) != want {
			t.Errorf("flows = %s, %v, want %s", got, err, want)
		}
	}
}
