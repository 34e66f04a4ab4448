package a2a

import (
	"maps"
	"slices"
)

// Validate reports all violated rules.
func (s HTTPAuthSecurityScheme) Validate() error {
	var p Problems
	p.notEmpty("scheme", s.Scheme)
	return p.Err()
}

// Validate reports all violated rules.
func (s APIKeySecurityScheme) Validate() error {
	var p Problems
	p.notEmpty("name", s.Name)
	p.Check(slices.Contains(s.In.EnumValues(), string(s.In)), "in", "is %s, want query, header or cookie", Quote(string(s.In)))
	return p.Err()
}

// Validate reports all violated rules.
func (s OAuth2SecurityScheme) Validate() error {
	var p Problems
	p.In("flows", s.Flows.Validate())
	p.https("oauth2MetadataUrl", s.MetadataURL)
	return p.Err()
}

// Validate reports all violated rules.
func (s OpenIDConnectSecurityScheme) Validate() error {
	var p Problems
	p.absolute("openIdConnectUrl", s.URL, "https")
	return p.Err()
}

// Validate returns nil: the scheme has no rules.
func (MutualTLSSecurityScheme) Validate() error { return nil }

// Validate reports all violated rules: there must be at least one flow, and all URLs must be
// https.
func (f OAuthFlows) Validate() error {
	var p Problems
	p.Check(f != OAuthFlows{}, "", "must have at least one flow")
	if f := f.AuthorizationCode; f != nil {
		p.flow("authorizationCode", map[string]string{"authorizationUrl": f.AuthorizationURL, "tokenUrl": f.TokenURL}, f.RefreshURL)
	}
	if f := f.ClientCredentials; f != nil {
		p.flow("clientCredentials", map[string]string{"tokenUrl": f.TokenURL}, f.RefreshURL)
	}
	if f := f.Implicit; f != nil {
		p.flow("implicit", map[string]string{"authorizationUrl": f.AuthorizationURL}, f.RefreshURL)
	}
	if f := f.Password; f != nil {
		p.flow("password", map[string]string{"tokenUrl": f.TokenURL}, f.RefreshURL)
	}
	if f := f.DeviceCode; f != nil {
		p.flow("deviceCode", map[string]string{"deviceAuthorizationUrl": f.DeviceAuthorizationURL, "tokenUrl": f.TokenURL}, f.RefreshURL)
	}
	return p.Err()
}

func (p *Problems) flow(path string, urls map[string]string, refresh string) {
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		p.absolute(path+"."+name, urls[name], "https")
	}
	p.https(path+".refreshUrl", refresh)
}

// Validate reports all violated rules of A2A and of the extensions that the card has.
func (c AgentCard) Validate() error {
	var p Problems
	p.notEmpty("name", c.Name)
	p.absolute("url", c.URL)
	for i, face := range c.AdditionalInterfaces {
		p.absolute(Index("additionalInterfaces", i)+".url", face.URL)
	}
	for _, name := range slices.Sorted(maps.Keys(c.SecuritySchemes)) {
		if v, ok := c.SecuritySchemes[name].(interface{ Validate() error }); ok {
			p.In("securitySchemes."+name, v.Validate())
		} else {
			p.Add("securitySchemes."+name, "must not be null")
		}
	}
	p.security("security", c.Security, c.SecuritySchemes)
	for i, skill := range c.Skills {
		p.notEmpty(Index("skills", i)+".id", skill.ID)
		p.security(Index("skills", i)+".security", skill.Security, c.SecuritySchemes)
	}
	for i, signature := range c.Signatures {
		p.In(Index("signatures", i), signature.Validate())
	}
	c.validateExtensions(&p)
	return p.Err()
}

// security checks that all names in alternatives are security schemes of the card.
func (p *Problems) security(path string, alternatives []map[string][]string, schemes map[string]SecurityScheme) {
	for i, all := range alternatives {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			_, ok := schemes[name]
			p.Check(ok, Index(path, i), "has %s, which is not in securitySchemes", Quote(name))
		}
	}
}

func (c AgentCard) validateExtensions(p *Problems) {
	if c.ID != "" {
		p.uuid("id", c.ID)
	}
	if c.AgentTrust != nil {
		p.In("agentTrust", c.AgentTrust.Validate())
	}
	if c.ExecutionCost != nil {
		p.In("executionCost", c.ExecutionCost.Validate())
	}
	if n := c.NumHistorySessions; n != nil && *n < 0 {
		p.Add("numHistorySessions", "is %d, want 0 or more", *n)
	}
}

// ValidateExtended is like [AgentCard.Validate] but requires the extension members.
func (c AgentCard) ValidateExtended() error {
	var p Problems
	p.In("", c.Validate())
	for _, member := range []struct {
		name string
		ok   bool
	}{
		{"id", c.ID != ""},
		{"kind", c.Kind != ""},
		{"agentTrust", c.AgentTrust != nil},
		{"numHistorySessions", c.NumHistorySessions != nil},
		{"extraData", c.ExtraData != nil},
		{"debugMode", c.DebugMode != nil},
		{"debugLevel", c.DebugLevel != 0},
		{"monitoring", c.Monitoring != nil},
		{"telemetry", c.Telemetry != nil},
	} {
		p.Check(member.ok, member.name, "is required")
	}
	return p.Err()
}
