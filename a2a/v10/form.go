package v10

import (
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The forms of A2A 1.0: strict without the members of extensions, extended with them. Both
// decode them.
var strict, extended = newForm(false), newForm(true)

// newForm returns a form. The tags v10 of the model describe most differences from A2A 0.3; the
// conversions here implement the others.
func newForm(extended bool) *wire.Form {
	f := wire.NewProtoForm("v10", extended)
	wire.EnumIn(f, stateNames, states)
	wire.EnumIn(f, roleNames, roles)
	wire.WrapIn(f, map[string]a2a.SendMessageResult{"task": (*a2a.Task)(nil), "message": (*a2a.Message)(nil)})
	wire.WrapIn(f, map[string]a2a.Event{
		"task": (*a2a.Task)(nil), "message": (*a2a.Message)(nil),
		"statusUpdate": (*a2a.TaskStatusUpdateEvent)(nil), "artifactUpdate": (*a2a.TaskArtifactUpdateEvent)(nil),
	})
	wire.WrapIn(f, map[string]a2a.SecurityScheme{
		"apiKeySecurityScheme": a2a.APIKeySecurityScheme{}, "httpAuthSecurityScheme": a2a.HTTPAuthSecurityScheme{},
		"oauth2SecurityScheme": a2a.OAuth2SecurityScheme{}, "openIdConnectSecurityScheme": a2a.OpenIDConnectSecurityScheme{},
		"mtlsSecurityScheme": a2a.MutualTLSSecurityScheme{},
	})
	wire.Convert(f, encodePart, decodePart)
	wire.Convert(f, func(m, w *a2a.Message) {
		*w = *m
		EncodeRole(&w.Role, &w.Metadata)
	}, func(w, m *a2a.Message) error {
		*m = *w
		DecodeRole(&m.Role, &m.Metadata)
		return nil
	})
	wire.Convert(f, func(m, w *a2a.Task) {
		*w = *m
		EncodeState(&w.Status.State, &w.Metadata)
	}, func(w, m *a2a.Task) error {
		*m = *w
		DecodeState(&m.Status.State, &m.Metadata)
		return nil
	})
	wire.Convert(f, func(m, w *a2a.Artifact) {
		*w = *m
		EncodeParts(&w.Parts, &w.Metadata)
	}, func(w, m *a2a.Artifact) error {
		*m = *w
		DecodeParts(&m.Parts, &m.Metadata)
		return nil
	})
	wire.Convert(f, func(m, w *a2a.TaskStatusUpdateEvent) {
		*w = *m
		EncodeState(&w.Status.State, &w.Metadata)
	}, func(w, m *a2a.TaskStatusUpdateEvent) error {
		*m = *w
		DecodeState(&m.Status.State, &m.Metadata)
		m.Final = m.Status.State.Final()
		return nil
	})
	convertParams(f)
	convertPush(f)
	convertCard(f)
	return f
}

// part is a Part of A2A 1.0, which has exactly one of Text, Raw, URL and Data.
type part struct {
	Text      *string        `json:"text,omitempty" wire:"text"`
	Raw       *[]byte        `json:"raw,omitempty"`
	URL       *string        `json:"url,omitempty"`
	Data      *any           `json:"data,omitempty" wire:"null"`
	Filename  string         `json:"filename,omitempty"`
	MediaType string         `json:"mediaType,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`

	Caption        string    `json:"caption,omitempty" wire:"text,ext"`
	Embeddings     []float64 `json:"embeddings,omitempty" wire:"ext"`
	FileEmbeddings []float64 `json:"fileEmbeddings,omitempty" wire:"ext"`

	// The values that the pointers refer to while a part is encoded.
	text string
	raw  []byte
	data any
}

func encodePart(m *a2a.Part, w *part) {
	switch p := (*m).(type) {
	case a2a.TextPart:
		w.text, w.Text = p.Text, &w.text
		w.Filename, w.MediaType, w.Metadata, w.Embeddings = p.Filename, p.MediaType, p.Metadata, p.Embeddings
	case a2a.DataPart:
		w.data, w.Data = p.Data, &w.data
		w.Filename, w.MediaType, w.Metadata, w.Embeddings, w.Caption = p.Filename, p.MediaType, p.Metadata, p.Embeddings, p.Text
	case a2a.FilePart:
		w.Metadata, w.Embeddings, w.Caption = p.Metadata, p.Embeddings, p.Text
		switch f := p.File.(type) {
		case a2a.FileWithBytes:
			w.raw, w.Raw = f.Bytes, &w.raw
			w.Filename, w.MediaType, w.FileEmbeddings = f.Name, f.MimeType, f.Embeddings
		case a2a.FileWithURI:
			w.text, w.URL = f.URI, &w.text
			w.Filename, w.MediaType, w.FileEmbeddings = f.Name, f.MimeType, f.Embeddings
		}
	}
}

func decodePart(w *part, m *a2a.Part) error {
	found := 0
	if w.Text != nil {
		found++
		*m = a2a.TextPart{Text: *w.Text, Metadata: w.Metadata, Embeddings: w.Embeddings, Filename: w.Filename, MediaType: w.MediaType}
	}
	if w.Data != nil {
		found++
		*m = a2a.DataPart{Data: *w.Data, Metadata: w.Metadata, Text: w.Caption, Embeddings: w.Embeddings, Filename: w.Filename, MediaType: w.MediaType}
	}
	file := a2a.FilePart{Metadata: w.Metadata, Text: w.Caption, Embeddings: w.Embeddings}
	if w.Raw != nil {
		found++
		file.File = a2a.FileWithBytes{Name: w.Filename, MimeType: w.MediaType, Bytes: *w.Raw, Embeddings: w.FileEmbeddings}
		*m = file
	}
	if w.URL != nil {
		found++
		file.File = a2a.FileWithURI{Name: w.Filename, MimeType: w.MediaType, URI: *w.URL, Embeddings: w.FileEmbeddings}
		*m = file
	}
	if found != 1 {
		return &wire.Error{Rule: "must have exactly one of text, raw, url, data"}
	}
	return nil
}

func convertParams(f *wire.Form) {
	// A2A 1.0 waits unless returnImmediately is set; the model waits only if Blocking is set.
	wire.Convert(f, func(m, w *a2a.MessageSendParams) {
		*w = *m
		if w.Configuration == nil {
			w.Configuration = new(a2a.MessageSendConfiguration)
		}
	}, func(w, m *a2a.MessageSendParams) error {
		*m = *w
		if m.Configuration == nil {
			m.Configuration = &a2a.MessageSendConfiguration{Blocking: true}
		}
		return nil
	})
	inverse := func(from, to *a2a.MessageSendConfiguration) {
		*to = *from
		to.Blocking = !from.Blocking
	}
	wire.Convert(f, inverse, func(w, m *a2a.MessageSendConfiguration) error {
		inverse(w, m)
		return nil
	})
	// A filter by a state selects all states that are mapped to it. A2A 1.0 requires the total.
	wire.Convert(f, func(m, w *a2a.ListTasksParams) {
		*w = *m
		w.States = nil
		if m.Status != "" {
			w.Status = Standard(m.Status)
		}
		for _, s := range m.States {
			if s = Standard(s); !slices.Contains(w.States, s) {
				w.States = append(w.States, s)
			}
		}
		if len(w.States) == 1 && w.Status == "" {
			w.Status, w.States = w.States[0], nil
		}
	}, func(w, m *a2a.ListTasksParams) error {
		*m = *w
		m.States, m.Status, m.IncludeTotal = nil, "", true
		if w.Status != "" && w.Status != a2a.StateUnknown {
			m.States = ShownAs(w.Status)
		}
		for _, s := range w.States {
			if !slices.Contains(m.States, s) {
				m.States = append(m.States, ShownAs(s)...)
			}
		}
		return nil
	})
}

// authentication is an AuthenticationInfo of A2A 1.0.
type authentication struct {
	Scheme      string `json:"scheme" wire:"required"`
	Credentials string `json:"credentials,omitempty"`
}

func convertPush(f *wire.Form) {
	wire.Convert(f, func(m *a2a.PushAuthentication, w *authentication) {
		switch a := (*m).(type) {
		case a2a.PushNotificationAuthenticationInfo:
			w.Credentials = a.Credentials
			if len(a.Schemes) > 0 {
				w.Scheme = a.Schemes[0]
			}
		case a2a.HTTPAuthSecurityScheme:
			w.Scheme = a.Scheme
		case a2a.SecurityScheme:
			w.Scheme = a.SchemeType()
		}
	}, func(w *authentication, m *a2a.PushAuthentication) error {
		*m = a2a.PushNotificationAuthenticationInfo{Schemes: []string{w.Scheme}, Credentials: w.Credentials}
		return nil
	})
}

// card is an AgentCard of A2A 1.0.
type card struct {
	a2a.AgentCard       `v10:",inline"`
	SupportedInterfaces []a2a.AgentInterface `json:"supportedInterfaces" wire:"required"`
	Capabilities        struct {
		a2a.AgentCapabilities `v10:",inline"`

		ExtendedAgentCard bool `json:"extendedAgentCard,omitempty"`
	} `json:"capabilities" wire:"required"`
}

// requirement is a SecurityRequirement of A2A 1.0.
type requirement struct {
	Schemes map[string]stringList `json:"schemes"`
}

type stringList struct {
	List []string `json:"list,omitempty"`
}

func convertCard(f *wire.Form) {
	wire.Convert(f, func(m *a2a.AgentCard, w *card) {
		w.AgentCard, w.SupportedInterfaces, w.Capabilities.AgentCapabilities = *m, m.AdditionalInterfaces, m.Capabilities
		w.Capabilities.ExtendedAgentCard = m.SupportsAuthenticatedExtendedCard
	}, func(w *card, m *a2a.AgentCard) error {
		*m = w.AgentCard
		m.Capabilities, m.SupportsAuthenticatedExtendedCard = w.Capabilities.AgentCapabilities, w.Capabilities.ExtendedAgentCard
		if m.AdditionalInterfaces = w.SupportedInterfaces; len(m.AdditionalInterfaces) > 0 {
			first := &m.AdditionalInterfaces[0]
			m.URL, m.PreferredTransport, m.ProtocolVersion = first.URL, first.Transport, first.ProtocolVersion
		}
		return nil
	})
	wire.Convert(f, func(m *map[string][]string, w *requirement) {
		w.Schemes = make(map[string]stringList, len(*m))
		for name, scopes := range *m {
			w.Schemes[name] = stringList{scopes}
		}
	}, func(w *requirement, m *map[string][]string) error {
		*m = make(map[string][]string, len(w.Schemes))
		for name, scopes := range w.Schemes {
			(*m)[name] = append([]string{}, scopes.List...)
		}
		return nil
	})
	// A2A 1.0 allows one flow.
	wire.Convert(f, func(m, w *a2a.OAuthFlows) {
		switch {
		case m.AuthorizationCode != nil:
			w.AuthorizationCode = m.AuthorizationCode
		case m.ClientCredentials != nil:
			w.ClientCredentials = m.ClientCredentials
		case m.Implicit != nil:
			w.Implicit = m.Implicit
		case m.Password != nil:
			w.Password = m.Password
		default:
			w.DeviceCode = m.DeviceCode
		}
	}, func(w, m *a2a.OAuthFlows) error {
		*m = *w
		return nil
	})
}
