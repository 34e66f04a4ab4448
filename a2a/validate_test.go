package a2a_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

type validator interface{ Validate() error }

const (
	uuid1 = "11111111-1111-4111-8111-111111111111"
	uuid2 = "22222222-2222-4222-8222-222222222222"
)

func ptr[T any](v T) *T { return &v }

// problems returns the texts of the problems in err.
func problems(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var e *a2a.InvalidError
	if !errors.As(err, &e) {
		t.Fatalf("error %v is a %T, want an *a2a.InvalidError", err, err)
	}
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return texts
}

func validMessage() a2a.Message {
	return a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{}}}
}

func TestValidateMessages(t *testing.T) {
	t.Parallel()
	file := func(f a2a.File) a2a.Message {
		m := validMessage()
		m.Parts = []a2a.Part{a2a.FilePart{File: f}}
		return m
	}
	for _, test := range []struct {
		name string
		v    validator
		want []string
	}{
		{"a message", validMessage(), nil},
		{"an empty message", a2a.Message{}, []string{"messageId must not be empty", `role is "", want user, agent or system`, "parts must not be empty"}},
		{"a nil part", a2a.Message{ID: "m", Role: "user", Parts: []a2a.Part{nil}}, []string{"parts[0] must not be null"}},
		{"no file", file(nil), []string{"parts[0].file must have exactly one of bytes, uri"}},
		{"a file", file(a2a.FileWithBytes{Bytes: []byte("x"), MimeType: "text/plain; charset=utf-8"}), nil},
		{"a file that is too large", file(a2a.FileWithBytes{Bytes: make([]byte, a2a.MaxInlineFile+1)}), []string{"parts[0].file.bytes has 1048577 bytes, want at most 1048576 inline"}},
		{"a file of no type", file(a2a.FileWithBytes{MimeType: "text"}), []string{`parts[0].file.mimeType is "text", want a media type such as text/plain`}},
		{"a file at another scheme", file(a2a.FileWithURI{URI: "s3://bucket/key"}), nil},
		{"a relative URI", file(a2a.FileWithURI{URI: "a.pdf"}), []string{`parts[0].file.uri is "a.pdf", want an absolute URL`}},
		{"a URI without a host", file(a2a.FileWithURI{URI: "https:///a"}), []string{`parts[0].file.uri is "https:///a", which has no host`}},
		{"embeddings", a2a.TextPart{Embeddings: []float64{1, math.NaN(), math.Inf(1)}}, []string{"embeddings[1] must be a finite number", "embeddings[2] must be a finite number"}},
		{"data", a2a.DataPart{Data: map[string]any{}}, nil},
		{"an artifact", a2a.Artifact{}, []string{"artifactId must not be empty", "parts must not be empty"}},
		{"send params", a2a.MessageSendParams{Message: validMessage(), Configuration: &a2a.MessageSendConfiguration{}}, nil},
		{"bad send params", a2a.MessageSendParams{Configuration: &a2a.MessageSendConfiguration{
			AcceptedOutputModes: []string{""}, HistoryLength: ptr(-1), PushNotificationConfig: &a2a.PushNotificationConfig{URL: "ftp://x"},
		}}, []string{
			"message.messageId must not be empty", `message.role is "", want user, agent or system`, "message.parts must not be empty",
			"configuration.acceptedOutputModes[0] must not be empty", "configuration.historyLength is -1, want 0 or more",
			`configuration.pushNotificationConfig.url is "ftp://x", want a URL that starts with http:// or https://`,
		}},
		{"worker params", a2a.TaskSendParams{Message: &a2a.Message{ID: "m", Role: "agent", Parts: []a2a.Part{a2a.TextPart{}}}, HistoryLength: ptr(-2)}, []string{"taskId must not be empty", "contextId must not be empty", "historyLength is -2, want 0 or more"}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.v.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

// Validate does not repeat these checks of decoding.
func TestDecodingRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"kind":"file","file":{"bytes":"aGk=","uri":"https://x"}}`: "file must have exactly one of bytes, uri",
		`{"kind":"file","file":{}}`:                                 "file must have exactly one of bytes, uri",
		`{"kind":"file","file":{"bytes":"a"}}`:                      "file.bytes must be base64",
		`{"kind":"text"}`:                                           "text is required",
		`{"kind":"data"}`:                                           "data is required",
		`{"text":"x"}`:                                              "kind is required",
	} {
		var part a2a.Part
		if err := wire.Unmarshal([]byte(text), &part); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Unmarshal(%s): %v, want %s", text, err, want)
		}
	}
}

func TestValidateTasksAndContexts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct {
		name string
		v    validator
		want []string
	}{
		{"feedback", a2a.TaskFeedbackParams{TaskID: "t", Rating: ptr(5)}, nil},
		{"feedback without a rating", a2a.TaskFeedbackParams{TaskID: "t"}, nil},
		{"a rating of 0", a2a.TaskFeedbackParams{TaskID: "t", Rating: ptr(0)}, []string{"rating is 0, want 1 to 5"}},
		{"a rating of 6", a2a.TaskFeedbackParams{Rating: ptr(6)}, []string{"taskId must not be empty", "rating is 6, want 1 to 5"}},
		{"a query", a2a.TaskQueryParams{HistoryLength: ptr(-1)}, []string{"id must not be empty", "historyLength is -1, want 0 or more"}},
		{"a list", a2a.ListTasksParams{HistoryLength: ptr(-1)}, []string{"historyLength is -1, want 0 or more"}},
		{"a context query", a2a.ContextQueryParams{HistoryLength: ptr(-1)}, []string{"contextId must not be empty", "historyLength is -1, want 0 or more"}},
		{"a context list", a2a.ListContextsParams{HistoryLength: ptr(-1)}, []string{"historyLength is -1, want 0 or more"}},
		{"an id", a2a.TaskIDParams{}, []string{"id must not be empty"}},
		{"an update of a context", a2a.UpdateContextParams{}, []string{"contextId must not be empty"}},
		{"a clear", a2a.ClearContextParams{}, []string{"contextId must not be empty"}},
		{"a context", a2a.Context{ID: "c", CreatedAt: now, UpdatedAt: now, ParentID: "d", Status: a2a.ContextPaused}, nil},
		{"a bad context", a2a.Context{ID: "c", CreatedAt: now, UpdatedAt: now.Add(-1), ParentID: "c", Status: "open"}, []string{
			"updatedAt is before createdAt", "parentContextId is the context itself", `status is "open", want active, paused, completed or archived`,
		}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.v.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
	parents := map[string]string{"b": "a", "c": "b", "x": "y", "y": "x"}
	for _, test := range []struct {
		id, parent string
		ok         bool
	}{{"d", "c", true}, {"a", "", true}, {"a", "c", false}, {"a", "a", false}, {"d", "x", false}} {
		if err := a2a.CheckParents(test.id, test.parent, func(id string) string { return parents[id] }); (err == nil) != test.ok {
			t.Errorf("CheckParents(%s, %s) = %v", test.id, test.parent, err)
		}
	}
}

func TestValidateNegotiation(t *testing.T) {
	t.Parallel()
	offer := a2a.NegotiationProposal{ID: uuid1, FromAgent: "did:web:a", ToAgent: uuid2, Terms: map[string]any{"price": 1.0}, Status: a2a.ProposalProposed}
	counter := a2a.NegotiationProposal{ID: uuid2, FromAgent: uuid2, ToAgent: "did:web:a", Terms: map[string]any{"price": 2.0}, Status: a2a.ProposalProposed}
	accepted, changed := offer, offer
	accepted.Status = a2a.ProposalAccepted
	changed.Terms, changed.Status = counter.Terms, a2a.ProposalAccepted
	for _, test := range []struct {
		name string
		err  error
		want []string
	}{
		{"an offer", offer.Validate(), nil},
		{"an offer to oneself", a2a.NegotiationProposal{ID: "1", FromAgent: "me", ToAgent: "me"}.Validate(), []string{
			`proposalId is "1", want a UUID`, `fromAgent is "me", want a UUID or a DID`, `toAgent is "me", want a UUID or a DID`,
			"toAgent must differ from fromAgent", "terms is required",
		}},
		{"accepting", offer.ValidateMove(accepted), nil},
		{"staying", accepted.ValidateMove(accepted), nil},
		{"changing terms", offer.ValidateMove(changed), []string{"terms must not change; a counter-offer is another proposal"}},
		{"taking back", accepted.ValidateMove(offer), []string{`status is accepted and cannot become "proposed"`}},
		{"moving another", offer.ValidateMove(counter), []string{"proposalId must not change", "toAgent and fromAgent must not change", "terms must not change; a counter-offer is another proposal"}},
		{"a counter-offer", offer.ValidateCounter(counter), nil},
		{"an offer as its own counter", offer.ValidateCounter(accepted), []string{
			"proposalId must differ from that of the original proposal", "fromAgent must be the toAgent of the original proposal", "toAgent must be the fromAgent of the original proposal", `status is "accepted", want proposed`,
		}},
		{"a session", a2a.NegotiationContext{ContextID: "c", Participants: []string{uuid1, uuid2}, Proposals: []a2a.NegotiationProposal{offer}}.Validate(), nil},
		{"a session of one agent", a2a.NegotiationContext{Participants: []string{uuid1}}.Validate(), []string{"contextId must not be empty", "participants has 1 agents, want 2 or more"}},
		{"a session of one", a2a.NegotiationContext{ContextID: "c", Participants: []string{uuid1, uuid1}, Proposals: []a2a.NegotiationProposal{{}}}.Validate(), []string{
			"participants[1] occurs more than once", `proposals[0].proposalId is "", want a UUID`, `proposals[0].fromAgent is "", want a UUID or a DID`,
			`proposals[0].toAgent is "", want a UUID or a DID`, "proposals[0].toAgent must differ from fromAgent", "proposals[0].terms is required",
		}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.err)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestNegotiationCanMove(t *testing.T) {
	t.Parallel()
	legal := []string{
		"proposed accepted", "proposed rejected", "proposed countered",
	}
	for _, from := range a2a.NegotiationStatus("").EnumValues() {
		for _, to := range append(a2a.NegotiationStatus("").EnumValues(), "made up") {
			want := slices.Contains(legal, from+" "+to)
			if got := a2a.NegotiationStatus(from).CanMove(a2a.NegotiationStatus(to)); got != want {
				t.Errorf("proposal %s.CanMove(%s) = %t, want %t", from, to, got, want)
			}
		}
	}
	legal = []string{
		"initiated initiated", "initiated ongoing", "initiated rejected", "ongoing ongoing", "ongoing completed", "ongoing rejected",
	}
	for _, from := range a2a.NegotiationSessionStatus("").EnumValues() {
		for _, to := range append(a2a.NegotiationSessionStatus("").EnumValues(), "made up") {
			want := slices.Contains(legal, from+" "+to)
			if got := a2a.NegotiationSessionStatus(from).CanMove(a2a.NegotiationSessionStatus(to)); got != want {
				t.Errorf("session %s.CanMove(%s) = %t, want %t", from, to, got, want)
			}
		}
	}
	for from, want := range map[a2a.AnySessionStatus]a2a.NegotiationSessionStatus{
		"proposed": "initiated", "countered": "ongoing", "accepted": "completed", "rejected": "rejected", "ongoing": "ongoing",
	} {
		if got := from.Session(); got != want {
			t.Errorf("%s.Session() = %s, want %s", from, got, want)
		}
	}
}

func TestValidateCredits(t *testing.T) {
	t.Parallel()
	cost := a2a.AgentExecutionCost{AgentID: "a", CreditsPerRequest: 10, CreatorDID: "did:web:c", MinimumTrustLevel: a2a.TrustAnalyst}
	request := a2a.ExecutionRequest{RequestID: uuid1, ExecutorDID: "did:web:u", AgentID: "a", EstimatedCredits: 10, TrustLevel: a2a.TrustAdmin}
	cheap := request
	cheap.EstimatedCredits, cheap.AgentID = 9, "b"
	response := a2a.ExecutionResponse{RequestID: uuid1, ExecutionID: uuid2, Success: true, CreditsCharged: 10, TransactionID: uuid1, OutputData: "x"}
	for _, test := range []struct {
		name string
		err  error
		want []string
	}{
		{"a price", cost.Validate(), nil},
		{"a bad price", a2a.AgentExecutionCost{CreditsPerRequest: -1, CreatorDID: "did:"}.Validate(), []string{
			"agentId must not be empty", "creditsPerRequest is -1, want 0 or more", `creatorDid is "did:", want a DID such as did:web:example.com`,
			`minimumTrustLevel is "", want one of super_admin, admin, manager, operator, editor, analyst, auditor, support, viewer, guest`,
		}},
		{"a request", request.Validate(), nil},
		{"a bad request", a2a.ExecutionRequest{RequestID: "x", ExecutorDID: "me", AgentID: "a", EstimatedCredits: -1, TrustLevel: "guest"}.Validate(), []string{
			`requestId is "x", want a UUID`, `executorDid is "me", want a DID such as did:web:example.com`, "estimatedCredits is -1, want 0 or more",
		}},
		{"a request at the price", request.ValidateFor(cost, "did:web:u", a2a.TrustAnalyst), nil},
		{"a request below the price", cheap.ValidateFor(cost, "did:web:x", a2a.TrustGuest), []string{
			"executorDid is not the caller", "agentId is not the agent of the price", "estimatedCredits is 9, the price is 10", "trustLevel is too low, want analyst or higher",
		}},
		{"a response", response.Validate(), nil},
		{"a refusal", a2a.ExecutionResponse{RequestID: uuid1, ExecutionID: uuid2, ErrorMessage: "no"}.Validate(), nil},
		{"a failure with output", a2a.ExecutionResponse{RequestID: uuid1, ExecutionID: uuid2, OutputData: "x", CreditsCharged: 1}.Validate(), []string{
			"outputData must be absent if success is false", "transactionId is required if credits were charged",
		}},
		{"a bad response", a2a.ExecutionResponse{Success: true, ErrorMessage: "x", CreditsCharged: -1, TransactionID: "t"}.Validate(), []string{
			`requestId is "", want a UUID`, `executionId is "", want a UUID`, "creditsCharged is -1, want 0 or more",
			"errorMessage must be absent if success is true", "transactionId must be absent if nothing was charged",
		}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.err)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestTrustLevelsAreOrdered(t *testing.T) {
	t.Parallel()
	levels := a2a.TrustLevel("").EnumValues()
	for i, have := range levels {
		for j, need := range levels {
			if got := a2a.TrustLevel(have).AtLeast(a2a.TrustLevel(need)); got != (i <= j) {
				t.Errorf("%s.AtLeast(%s) = %t", have, need, got)
			}
			if got, want := a2a.TrustLevel(have).Lower(a2a.TrustLevel(need)), levels[max(i, j)]; string(got) != want {
				t.Errorf("%s.Lower(%s) = %s, want %s", have, need, got, want)
			}
		}
		if a2a.TrustLevel(have).AtLeast("Guest") || a2a.TrustLevel("root").AtLeast(a2a.TrustLevel(have)) {
			t.Errorf("%s.AtLeast or Lower accepts an unknown level", have)
		}
	}
	if top, bottom := a2a.TrustSuperAdmin.Rank(), a2a.TrustGuest.Rank(); top != 9 || bottom != 0 {
		t.Errorf("ranks are %d to %d, want 0 to 9", bottom, top)
	}
}

func TestValidateTrust(t *testing.T) {
	t.Parallel()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("der")}))
	fingerprint := a2a.Fingerprint([]byte("der"))
	if len(fingerprint) != 95 || strings.Trim(fingerprint, "0123456789abcdef:") != "" {
		t.Errorf("Fingerprint = %s, want 32 pairs of hex digits", fingerprint)
	}
	role := a2a.KeycloakRole{ID: uuid1, Name: "r", TrustLevel: "admin", OperationPermissions: map[string]a2a.TrustLevel{"agent.delete": "root"}}
	for _, test := range []struct {
		name string
		v    validator
		want []string
	}{
		{"trust", a2a.AgentTrust{CreatorID: a2a.String("system"), Certificate: certificate, CertificateFingerprint: fingerprint}, nil},
		{"trust without a certificate", a2a.AgentTrust{CreatorID: a2a.Int(0), CertificateFingerprint: "ab:cd"}, nil},
		{"another certificate", a2a.AgentTrust{CreatorID: a2a.String("x"), Certificate: certificate, CertificateFingerprint: "ab:cd"}, []string{`certificateFingerprint is "ab:cd", the certificate's is ` + fingerprint}},
		{"bad trust", a2a.AgentTrust{InheritedRoles: []a2a.KeycloakRole{role}, Certificate: "x", AllowedOperations: map[string]a2a.TrustLevel{"tasks/get": "guest"}}, []string{
			`inheritedRoles[0].operationPermissions.agent.delete is "root", want one of super_admin, admin, manager, operator, editor, analyst, auditor, support, viewer, guest`,
			"creatorId is required", "certificate is not a PEM certificate",
		}},
		{"an identity", a2a.AgentIdentity{DID: "did:key:z1", DIDDocument: map[string]any{}, PublicKey: "k", Endpoint: "https://a"}, nil},
		{"a bad identity", a2a.AgentIdentity{DID: "did:Key:z", AgentDNSURL: "x", Endpoint: "y"}, []string{
			`did is "did:Key:z", want a DID such as did:web:example.com`, "didDocument is required", `agentdnsUrl is "x", want an absolute URL`,
			`endpoint is "y", want an absolute URL`, "publicKey must not be empty",
		}},
		{"a signature", a2a.AgentCardSignature{Protected: "e30", Signature: "AAAA"}, nil},
		{"a bad signature", a2a.AgentCardSignature{Protected: "e30="}, []string{"protected must be base64url without padding", "signature must be base64url without padding"}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.v.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestValidateCardsAndSecurity(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		v    validator
		want []string
	}{
		{"a card", a2a.AgentCard{Name: "a", URL: "https://a", Security: []map[string][]string{{"b": nil}}, SecuritySchemes: map[string]a2a.SecurityScheme{"b": a2a.HTTPAuthSecurityScheme{Scheme: "bearer"}}}, nil},
		{"a bad card", a2a.AgentCard{
			URL: "/", ID: "x", NumHistorySessions: ptr(-1), AgentTrust: &a2a.AgentTrust{}, ExecutionCost: &a2a.AgentExecutionCost{AgentID: "a", CreatorDID: "did:a:b", MinimumTrustLevel: "guest", CreditsPerRequest: -1},
			AdditionalInterfaces: []a2a.AgentInterface{{}}, Security: []map[string][]string{{"a": nil, "c": nil}},
			Skills: []a2a.AgentSkill{{Security: []map[string][]string{{"d": nil}}}}, Signatures: []a2a.AgentCardSignature{{Protected: "e30", Signature: "?"}},
			SecuritySchemes: map[string]a2a.SecurityScheme{"a": a2a.APIKeySecurityScheme{In: "body"}, "b": nil},
		}, []string{
			"name must not be empty", `url is "/", want an absolute URL`, `additionalInterfaces[0].url is "", want an absolute URL`,
			"securitySchemes.a.name must not be empty", `securitySchemes.a.in is "body", want query, header or cookie`, "securitySchemes.b must not be null",
			`security[0] has "c", which is not in securitySchemes`, "skills[0].id must not be empty", `skills[0].security[0] has "d", which is not in securitySchemes`,
			"signatures[0].signature must be base64url without padding", `id is "x", want a UUID`, "agentTrust.creatorId is required",
			"executionCost.creditsPerRequest is -1, want 0 or more", "numHistorySessions is -1, want 0 or more",
		}},
		{"a bare card", extendedCard{}, []string{
			"name must not be empty", `url is "", want an absolute URL`, "id is required", "kind is required", "agentTrust is required", "numHistorySessions is required",
			"extraData is required", "debugMode is required", "debugLevel is required", "monitoring is required", "telemetry is required",
		}},
		{"http", a2a.HTTPAuthSecurityScheme{}, []string{"scheme must not be empty"}},
		{"OpenID Connect", a2a.OpenIDConnectSecurityScheme{URL: "https://as/.well-known/openid-configuration"}, nil},
		{"OpenID Connect over http", a2a.OpenIDConnectSecurityScheme{URL: "http://as/"}, []string{`openIdConnectUrl is "http://as/", want a URL that starts with https://`}},
		{"mutual TLS", a2a.MutualTLSSecurityScheme{}, nil},
		{"OAuth without flows", a2a.OAuth2SecurityScheme{}, []string{"flows must have at least one flow"}},
		{"OAuth", a2a.OAuth2SecurityScheme{MetadataURL: "http://m", Flows: a2a.OAuthFlows{
			AuthorizationCode: &a2a.AuthorizationCodeOAuthFlow{AuthorizationURL: "https://a", TokenURL: "http://t", RefreshURL: "http://r"},
			ClientCredentials: &a2a.ClientCredentialsOAuthFlow{TokenURL: "https://t"},
			Implicit:          &a2a.ImplicitOAuthFlow{AuthorizationURL: "x"},
			Password:          &a2a.PasswordOAuthFlow{TokenURL: "https://"},
		}}, []string{
			`flows.authorizationCode.tokenUrl is "http://t", want a URL that starts with https://`, `flows.authorizationCode.refreshUrl is "http://r", want a URL that starts with https://`,
			`flows.implicit.authorizationUrl is "x", want an absolute URL`, `flows.password.tokenUrl is "https://", which has no host`,
			`oauth2MetadataUrl is "http://m", want a URL that starts with https://`,
		}},
		{"a webhook", a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{URL: "http://h:1/x", Authentication: a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}}}}, nil},
		{"an invalid webhook", a2a.TaskPushNotificationConfig{Config: a2a.PushNotificationConfig{URL: "https://:1", Authentication: a2a.PushNotificationAuthenticationInfo{}}}, []string{
			"taskId must not be empty", `pushNotificationConfig.url is "https://:1", which has no host`, "pushNotificationConfig.authentication.schemes must not be empty",
		}},
		{"an empty scheme", a2a.PushNotificationAuthenticationInfo{Schemes: []string{""}}, []string{"schemes[0] must not be empty"}},
		{"a webhook with invalid options", a2a.PushNotificationConfig{URL: "https://h", PayloadFormat: "xml", Signatures: []string{"v1", "v2", "v1"}}, []string{
			`payloadFormat is "xml", want event, task or stream-response`, `signatures[1] is "v2", want v1 or v1a`, "signatures[2] occurs more than once",
		}},
		{"a webhook with valid options", a2a.PushNotificationConfig{URL: "https://h", PayloadFormat: a2a.PayloadTask, Signatures: []string{"v1a", "v1"}}, nil},
		{"a webhook that is read", a2a.GetTaskPushNotificationConfigParams{}, []string{"id must not be empty"}},
		{"webhooks that are listed", a2a.ListTaskPushNotificationConfigParams{}, []string{"id must not be empty"}},
		{"a webhook that is deleted", a2a.DeleteTaskPushNotificationConfigParams{}, []string{"id must not be empty", "pushNotificationConfigId must not be empty"}},
		{"dead letters", a2a.ListDeadLettersParams{ConfigID: "w", PageSize: -1}, []string{"pushNotificationConfigId requires taskId", "pageSize is -1, want 1 to 100"}},
		{"dead letters of a webhook", a2a.ListDeadLettersParams{TaskID: "t", ConfigID: "w", PageSize: 100}, nil},
		{"a replay", a2a.ReplayParams{FromSequence: -1}, []string{"taskId must not be empty", "fromSequence is -1, want 0 or more"}},
		{"attempts", a2a.ListAttemptsParams{PageSize: 101}, []string{"taskId must not be empty", "pageSize is 101, want 1 to 100"}},
		{"a webhook with a scheme", a2a.PushNotificationConfig{URL: "https://h", Authentication: a2a.HTTPAuthSecurityScheme{}}, []string{"authentication.scheme must not be empty"}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.v.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

type extendedCard a2a.AgentCard

func (c extendedCard) Validate() error { return a2a.AgentCard(c).ValidateExtended() }

func TestValidateResponses(t *testing.T) {
	t.Parallel()
	failure := &a2a.JSONRPCError{Code: -32001, Message: "x"}
	for _, test := range []struct {
		name string
		v    validator
		want []string
	}{
		{"result", a2a.JSONRPCResponse{Result: "x"}, nil},
		{"error", a2a.JSONRPCResponse{Error: failure}, nil},
		{"both", a2a.GetTaskResponse{Result: &a2a.Task{}, Error: failure}, []string{"result must be absent if there is an error"}},
		{"neither", a2a.GetTaskResponse{}, []string{"result is required if there is no error"}},
		{"neither of a union", a2a.SendMessageResponse{}, []string{"result is required if there is no error"}},
		{"an empty list", a2a.ListTasksResponse{Result: []a2a.Task{}}, nil},
		{"null of delete", a2a.DeleteTaskPushNotificationConfigResponse{}, nil},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.v.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestInvalidErrorAs(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("send: %w", a2a.Message{}.Validate())
	var e *a2a.Error
	if !errors.As(err, &e) || e.Code != a2a.CodeInvalid || e.Data["field"] != "messageId" || a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("errors.As(%v) = %+v", err, e)
	}
	many := a2a.Message{ID: "m", Role: "user", Parts: make([]a2a.Part, 1000)}
	if text := many.Validate().Error(); len(text) > 1000 || !strings.HasSuffix(text, "and 980 more") {
		t.Errorf("text of 1000 problems = %q", text)
	}
	if fields, _ := e.Data["fields"].([]any); len(fields) != 3 || fields[0] != "messageId" || fields[2] != "parts" {
		t.Errorf("fields = %v, want the paths of all three problems", e.Data["fields"])
	}
	var advised, mixed *a2a.InvalidError
	large := a2a.FileWithBytes{Bytes: make([]byte, a2a.MaxInlineFile+1)}
	if !errors.As(large.Validate(), &advised) || !advised.Problems[0].Advice || advised.Required() != nil {
		t.Errorf("Validate of a large file = %+v, want advice", advised)
	}
	large.MimeType = "x"
	if !errors.As(large.Validate(), &mixed) || len(problems(t, mixed.Required())) != 1 {
		t.Errorf("Required() of advice and a violation = %+v, want the violation", mixed)
	}
	var p a2a.Problems
	p.In("member", errors.New("is strange"))
	if got := problems(t, p.Err()); !slices.Equal(got, []string{"member is strange"}) {
		t.Errorf("In of another error = %v", got)
	}
}

func TestCanonicalUUID(t *testing.T) {
	t.Parallel()
	const want = "01234567-89ab-cdef-0123-456789abcdef"
	for _, s := range []string{want, strings.ToUpper(want), strings.ReplaceAll(want, "-", ""), "urn:uuid:" + want, "{" + want + "}"} {
		if got, ok := a2a.CanonicalUUID(s); !ok || got != want {
			t.Errorf("CanonicalUUID(%s) = %s, %t", s, got, ok)
		}
	}
	for _, s := range []string{"", "x", want + "0", want[1:], "{" + want, strings.Replace(want, "-", "0", 1), "g" + want[1:], strings.Repeat("0", 1000), "é1234567-89ab-cdef-0123-456789abcde"} {
		if got, ok := a2a.CanonicalUUID(s); ok {
			t.Errorf("CanonicalUUID(%s) = %s, want none", s, got)
		}
	}
}

func TestStringOrInt(t *testing.T) {
	t.Parallel()
	for v, want := range map[a2a.StringOrInt]string{a2a.String("1"): "1", a2a.Int(-1): "-1", {}: ""} {
		if v.String() != want || v.IsZero() != (want == "") {
			t.Errorf("%#v is %q, zero %t, want %q", v, v.String(), v.IsZero(), want)
		}
		raw, err := json.Marshal(v)
		var got a2a.StringOrInt
		if err != nil || json.Unmarshal(raw, &got) != nil && !v.IsZero() || got != v {
			t.Errorf("%#v is %s in JSON (%v), which decodes to %#v", v, raw, err, got)
		}
	}
	if a2a.String("1") == a2a.Int(1) || a2a.String("").IsZero() {
		t.Error("String(\"1\"), Int(1) and the zero value are not distinct")
	}
}
