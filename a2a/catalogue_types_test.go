package a2a_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/a2a/ap2"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// goNames are the Go names of the catalogue's types if they differ, because of Go's initialisms
// or for historical reasons.
var goNames = map[string]string{
	"TaskIdParams":                "TaskIDParams",
	"MessageRole":                 "Role",
	"FileWithUri":                 "FileWithURI",
	"ContextIdParams":             "ContextIDParams",
	"Skill":                       "AgentSkill",
	"OpenIdConnectSecurityScheme": "OpenIDConnectSecurityScheme",
}

// goTypes are the Go types by the catalogue's names. Responses are instances of a generic
// type.
var goTypes = map[string]reflect.Type{
	"TaskState":                              reflect.TypeFor[a2a.TaskState](),
	"NegotiationStatus":                      reflect.TypeFor[a2a.NegotiationStatus](),
	"NegotiationSessionStatus":               reflect.TypeFor[a2a.NegotiationSessionStatus](),
	"TrustLevel":                             reflect.TypeFor[a2a.TrustLevel](),
	"IdentityProvider":                       reflect.TypeFor[a2a.IdentityProvider](),
	"MessageRole":                            reflect.TypeFor[a2a.Role](),
	"ContextStatus":                          reflect.TypeFor[a2a.ContextStatus](),
	"PartKind":                               reflect.TypeFor[a2a.PartKind](),
	"APIKeyLocation":                         reflect.TypeFor[a2a.APIKeyLocation](),
	"AgentKind":                              reflect.TypeFor[a2a.AgentKind](),
	"DebugLevel":                             reflect.TypeFor[a2a.DebugLevel](),
	"DataKey":                                reflect.TypeFor[ap2.DataKey](),
	"ShippingType":                           reflect.TypeFor[ap2.ShippingType](),
	"TextPart":                               reflect.TypeFor[a2a.TextPart](),
	"FileWithBytes":                          reflect.TypeFor[a2a.FileWithBytes](),
	"FileWithUri":                            reflect.TypeFor[a2a.FileWithURI](),
	"FilePart":                               reflect.TypeFor[a2a.FilePart](),
	"DataPart":                               reflect.TypeFor[a2a.DataPart](),
	"Part":                                   reflect.TypeFor[a2a.Part](),
	"Message":                                reflect.TypeFor[a2a.Message](),
	"Artifact":                               reflect.TypeFor[a2a.Artifact](),
	"TaskStatus":                             reflect.TypeFor[a2a.TaskStatus](),
	"Task":                                   reflect.TypeFor[a2a.Task](),
	"TaskStatusUpdateEvent":                  reflect.TypeFor[a2a.TaskStatusUpdateEvent](),
	"TaskArtifactUpdateEvent":                reflect.TypeFor[a2a.TaskArtifactUpdateEvent](),
	"TaskSendParams":                         reflect.TypeFor[a2a.TaskSendParams](),
	"TaskIdParams":                           reflect.TypeFor[a2a.TaskIDParams](),
	"TaskQueryParams":                        reflect.TypeFor[a2a.TaskQueryParams](),
	"ListTasksParams":                        reflect.TypeFor[a2a.ListTasksParams](),
	"TaskFeedbackParams":                     reflect.TypeFor[a2a.TaskFeedbackParams](),
	"MessageSendConfiguration":               reflect.TypeFor[a2a.MessageSendConfiguration](),
	"MessageSendParams":                      reflect.TypeFor[a2a.MessageSendParams](),
	"ListTaskPushNotificationConfigParams":   reflect.TypeFor[a2a.ListTaskPushNotificationConfigParams](),
	"DeleteTaskPushNotificationConfigParams": reflect.TypeFor[a2a.DeleteTaskPushNotificationConfigParams](),
	"Context":                                reflect.TypeFor[a2a.Context](),
	"ContextIdParams":                        reflect.TypeFor[a2a.ContextIDParams](),
	"ContextQueryParams":                     reflect.TypeFor[a2a.ContextQueryParams](),
	"ListContextsParams":                     reflect.TypeFor[a2a.ListContextsParams](),
	"NegotiationProposal":                    reflect.TypeFor[a2a.NegotiationProposal](),
	"NegotiationContext":                     reflect.TypeFor[a2a.NegotiationContext](),
	"HTTPAuthSecurityScheme":                 reflect.TypeFor[a2a.HTTPAuthSecurityScheme](),
	"APIKeySecurityScheme":                   reflect.TypeFor[a2a.APIKeySecurityScheme](),
	"OAuth2SecurityScheme":                   reflect.TypeFor[a2a.OAuth2SecurityScheme](),
	"OpenIdConnectSecurityScheme":            reflect.TypeFor[a2a.OpenIDConnectSecurityScheme](),
	"MutualTLSSecurityScheme":                reflect.TypeFor[a2a.MutualTLSSecurityScheme](),
	"SecurityScheme":                         reflect.TypeFor[a2a.SecurityScheme](),
	"PushNotificationConfig":                 reflect.TypeFor[a2a.PushNotificationConfig](),
	"PushNotificationAuthenticationInfo":     reflect.TypeFor[a2a.PushNotificationAuthenticationInfo](),
	"TaskPushNotificationConfig":             reflect.TypeFor[a2a.TaskPushNotificationConfig](),
	"ContactAddress":                         reflect.TypeFor[ap2.ContactAddress](),
	"PaymentCurrencyAmount":                  reflect.TypeFor[ap2.PaymentCurrencyAmount](),
	"PaymentItem":                            reflect.TypeFor[ap2.PaymentItem](),
	"PaymentShippingOption":                  reflect.TypeFor[ap2.PaymentShippingOption](),
	"PaymentOptions":                         reflect.TypeFor[ap2.PaymentOptions](),
	"PaymentMethodData":                      reflect.TypeFor[ap2.PaymentMethodData](),
	"PaymentDetailsModifier":                 reflect.TypeFor[ap2.PaymentDetailsModifier](),
	"PaymentDetailsInit":                     reflect.TypeFor[ap2.PaymentDetailsInit](),
	"PaymentRequest":                         reflect.TypeFor[ap2.PaymentRequest](),
	"PaymentResponse":                        reflect.TypeFor[ap2.PaymentResponse](),
	"IntentMandate":                          reflect.TypeFor[ap2.IntentMandate](),
	"CartContents":                           reflect.TypeFor[ap2.CartContents](),
	"CartMandate":                            reflect.TypeFor[ap2.CartMandate](),
	"PaymentMandateContents":                 reflect.TypeFor[ap2.PaymentMandateContents](),
	"PaymentMandate":                         reflect.TypeFor[ap2.PaymentMandate](),
	"AgentExecutionCost":                     reflect.TypeFor[a2a.AgentExecutionCost](),
	"ExecutionRequest":                       reflect.TypeFor[a2a.ExecutionRequest](),
	"ExecutionResponse":                      reflect.TypeFor[a2a.ExecutionResponse](),
	"KeycloakRole":                           reflect.TypeFor[a2a.KeycloakRole](),
	"AgentTrust":                             reflect.TypeFor[a2a.AgentTrust](),
	"AgentIdentity":                          reflect.TypeFor[a2a.AgentIdentity](),
	"AgentInterface":                         reflect.TypeFor[a2a.AgentInterface](),
	"AgentExtension":                         reflect.TypeFor[a2a.AgentExtension](),
	"Skill":                                  reflect.TypeFor[a2a.AgentSkill](),
	"AgentCapabilities":                      reflect.TypeFor[a2a.AgentCapabilities](),
	"AgentCard":                              reflect.TypeFor[a2a.AgentCard](),
	"JSONRPCMessage":                         reflect.TypeFor[a2a.JSONRPCMessage](),
	"JSONRPCRequest":                         reflect.TypeFor[a2a.JSONRPCRequest](),
	"JSONRPCError":                           reflect.TypeFor[a2a.JSONRPCError](),
	"JSONRPCResponse":                        reflect.TypeFor[a2a.JSONRPCResponse](),
	"JSONParseError":                         reflect.TypeFor[a2a.JSONParseError](),
	"InvalidRequestError":                    reflect.TypeFor[a2a.InvalidRequestError](),
	"MethodNotFoundError":                    reflect.TypeFor[a2a.MethodNotFoundError](),
	"InvalidParamsError":                     reflect.TypeFor[a2a.InvalidParamsError](),
	"InternalError":                          reflect.TypeFor[a2a.InternalError](),
	"TaskNotFoundError":                      reflect.TypeFor[a2a.TaskNotFoundError](),
	"TaskNotCancelableError":                 reflect.TypeFor[a2a.TaskNotCancelableError](),
	"PushNotificationNotSupportedError":      reflect.TypeFor[a2a.PushNotificationNotSupportedError](),
	"UnsupportedOperationError":              reflect.TypeFor[a2a.UnsupportedOperationError](),
	"ContentTypeNotSupportedError":           reflect.TypeFor[a2a.ContentTypeNotSupportedError](),
	"InvalidAgentResponseError":              reflect.TypeFor[a2a.InvalidAgentResponseError](),
	"AuthenticatedExtendedCardNotConfiguredError": reflect.TypeFor[a2a.AuthenticatedExtendedCardNotConfiguredError](),
	"TaskImmutableError":                          reflect.TypeFor[a2a.TaskImmutableError](),
	"AuthenticationRequiredError":                 reflect.TypeFor[a2a.AuthenticationRequiredError](),
	"InvalidTokenError":                           reflect.TypeFor[a2a.InvalidTokenError](),
	"TokenExpiredError":                           reflect.TypeFor[a2a.TokenExpiredError](),
	"InvalidTokenSignatureError":                  reflect.TypeFor[a2a.InvalidTokenSignatureError](),
	"InsufficientPermissionsError":                reflect.TypeFor[a2a.InsufficientPermissionsError](),
	"ContextNotFoundError":                        reflect.TypeFor[a2a.ContextNotFoundError](),
	"ContextNotCancelableError":                   reflect.TypeFor[a2a.ContextNotCancelableError](),
	"SkillNotFoundError":                          reflect.TypeFor[a2a.SkillNotFoundError](),
	"ErrorCode":                                   reflect.TypeFor[a2a.ErrorCode](),
	"SendMessageRequest":                          reflect.TypeFor[a2a.SendMessageRequest](),
	"SendMessageResponse":                         reflect.TypeFor[a2a.SendMessageResponse](),
	"StreamMessageRequest":                        reflect.TypeFor[a2a.StreamMessageRequest](),
	"StreamMessageResponse":                       reflect.TypeFor[a2a.StreamMessageResponse](),
	"GetTaskRequest":                              reflect.TypeFor[a2a.GetTaskRequest](),
	"GetTaskResponse":                             reflect.TypeFor[a2a.GetTaskResponse](),
	"CancelTaskRequest":                           reflect.TypeFor[a2a.CancelTaskRequest](),
	"CancelTaskResponse":                          reflect.TypeFor[a2a.CancelTaskResponse](),
	"ListTasksRequest":                            reflect.TypeFor[a2a.ListTasksRequest](),
	"ListTasksResponse":                           reflect.TypeFor[a2a.ListTasksResponse](),
	"TaskFeedbackRequest":                         reflect.TypeFor[a2a.TaskFeedbackRequest](),
	"TaskFeedbackResponse":                        reflect.TypeFor[a2a.TaskFeedbackResponse](),
	"ListContextsRequest":                         reflect.TypeFor[a2a.ListContextsRequest](),
	"ListContextsResponse":                        reflect.TypeFor[a2a.ListContextsResponse](),
	"ClearContextsRequest":                        reflect.TypeFor[a2a.ClearContextsRequest](),
	"ClearContextsResponse":                       reflect.TypeFor[a2a.ClearContextsResponse](),
	"SetTaskPushNotificationRequest":              reflect.TypeFor[a2a.SetTaskPushNotificationRequest](),
	"SetTaskPushNotificationResponse":             reflect.TypeFor[a2a.SetTaskPushNotificationResponse](),
	"GetTaskPushNotificationRequest":              reflect.TypeFor[a2a.GetTaskPushNotificationRequest](),
	"GetTaskPushNotificationResponse":             reflect.TypeFor[a2a.GetTaskPushNotificationResponse](),
	"ResubscribeTaskRequest":                      reflect.TypeFor[a2a.ResubscribeTaskRequest](),
	"ResubscribeTaskResponse":                     reflect.TypeFor[a2a.ResubscribeTaskResponse](),
	"ListTaskPushNotificationConfigRequest":       reflect.TypeFor[a2a.ListTaskPushNotificationConfigRequest](),
	"ListTaskPushNotificationConfigResponse":      reflect.TypeFor[a2a.ListTaskPushNotificationConfigResponse](),
	"DeleteTaskPushNotificationConfigRequest":     reflect.TypeFor[a2a.DeleteTaskPushNotificationConfigRequest](),
	"DeleteTaskPushNotificationConfigResponse":    reflect.TypeFor[a2a.DeleteTaskPushNotificationConfigResponse](),
	"A2ARequest":                                  reflect.TypeFor[a2a.A2ARequest](),
	"A2AResponse":                                 reflect.TypeFor[a2a.A2AResponse](),
	"OAuthFlows":                                  reflect.TypeFor[a2a.OAuthFlows](),
	"AuthorizationCodeOAuthFlow":                  reflect.TypeFor[a2a.AuthorizationCodeOAuthFlow](),
	"ClientCredentialsOAuthFlow":                  reflect.TypeFor[a2a.ClientCredentialsOAuthFlow](),
	"ImplicitOAuthFlow":                           reflect.TypeFor[a2a.ImplicitOAuthFlow](),
	"PasswordOAuthFlow":                           reflect.TypeFor[a2a.PasswordOAuthFlow](),
	"AgentProvider":                               reflect.TypeFor[a2a.AgentProvider](),
	"AgentCardSignature":                          reflect.TypeFor[a2a.AgentCardSignature](),
	"GetTaskPushNotificationConfigParams":         reflect.TypeFor[a2a.GetTaskPushNotificationConfigParams](),
	"GetAuthenticatedExtendedCardRequest":         reflect.TypeFor[a2a.GetAuthenticatedExtendedCardRequest](),
}

// renamed are members that are written under the name of A2A 0.3 instead of the catalogue's.
// Both names are accepted.
var renamed = map[string]string{
	"TaskIdParams.taskId":           "id",
	"TaskQueryParams.taskId":        "id",
	"TaskPushNotificationConfig.id": "taskId",
}

// lenient are members that are required in the catalogue but optional on input, with the
// reason.
var lenient = map[string]string{
	"Message.kind":                "clients of A2A 1.0 and many scripts omit it, and it has only one value; it is always written",
	"TaskFeedbackParams.feedback": "a rating without text is valid feedback",
	"TaskStatus.timestamp":        "A2A 0.3 makes it optional, so other agents omit it; the server always writes it",

	"AgentCard.id":                 extendedReason,
	"AgentCard.kind":               extendedReason,
	"AgentCard.agentTrust":         extendedReason,
	"AgentCard.numHistorySessions": extendedReason,
	"AgentCard.extraData":          extendedReason,
	"AgentCard.debugMode":          extendedReason,
	"AgentCard.debugLevel":         extendedReason,
	"AgentCard.monitoring":         extendedReason,
	"AgentCard.telemetry":          extendedReason,
}

// extendedReason is the reason for members that ValidateExtended requires.
const extendedReason = "an extension: A2A cards lack it, and the catalogue does not require it for cards of peers"

// defaults are the values of members that mean the same as an absent member. Either form
// may be written.
var defaults = map[string]any{
	"Artifact.parts":                              []any{},
	"Artifact.append":                             false,
	"Artifact.lastChunk":                          false,
	"TaskArtifactUpdateEvent.append":              false,
	"TaskArtifactUpdateEvent.lastChunk":           false,
	"MessageSendConfiguration.blocking":           false,
	"MessageSendConfiguration.longRunning":        false,
	"TaskPushNotificationConfig.longRunning":      false,
	"TaskFeedbackParams.feedback":                 "",
	"AgentExtension.required":                     false,
	"AgentCapabilities.streaming":                 false,
	"AgentCapabilities.pushNotifications":         false,
	"AgentCapabilities.stateTransitionHistory":    false,
	"AgentCard.supportsAuthenticatedExtendedCard": false,
}

// timeMembers are members with a time, which is written in UTC with milliseconds.
var timeMembers = map[string]bool{
	"TaskStatus.timestamp":            true,
	"Context.createdAt":               true,
	"Context.updatedAt":               true,
	"NegotiationProposal.timestamp":   true,
	"ExecutionResponse.executionTime": true,
}

// openEnums are enums that allow other values.
var openEnums = map[string]string{
	"ShippingType": "a plain string in AP2; the catalogue does not reject other values",
}

func TestExamplesRoundTrip(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		for what, document := range map[string]any{"example": c.examples[entry.Type], "full": c.fullExample(entry)} {
			for spelling, name := range map[string]nameFunc{"catalogue": ownName, "snake_case": snakeName, "wire": wireName} {
				emitted, err := c.decode(entry.Type, c.rename(entry.Type, document, ownName, name))
				if err != nil {
					t.Errorf("%s in %s: %v", what, spelling, err)
				} else if diff := c.diff(entry.Type, emitted, document); diff != "" {
					t.Errorf("%s in %s:\n%s", what, spelling, diff)
				}
			}
		}
	})
}

func TestPaymentsAreEmittedInSnakeCase(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	for _, name := range c.names {
		entry := c.types[name]
		if entry.Kind != "object" || entry.Standard != "ap2" {
			continue
		}
		document := c.fullExample(entry)
		emitted, err := c.decode(name, document)
		if want := c.rename(name, document, ownName, snakeName); err != nil || !reflect.DeepEqual(emitted, want) {
			t.Errorf("%s: %v, emitted %s, want %s", name, err, text(emitted), text(want))
		}
	}
}

func TestRequiredMembersMatchTheCatalogue(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		for i := range entry.Fields {
			f := &entry.Fields[i]
			absent, null := c.fullExample(entry), c.fullExample(entry)
			delete(absent, f.Name)
			null[f.Name] = nil
			without, err := c.decode(entry.Type, absent)
			if f.Required && lenient[entry.Type+"."+f.Name] == "" {
				wantPath(t, err, entry.wireName(f), "is required")
				// A2A 1.0 has data of any kind.
				if _, err := c.decode(entry.Type, null); !strings.Contains(f.Type, "null") && entry.Type+"."+f.Name != "DataPart.data" {
					wantPath(t, err, entry.wireName(f), "is required")
				} else if err != nil {
					t.Errorf("%s: null: %v, want no error", f.Name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("without %s: %v", f.Name, err)
			} else if !strings.HasPrefix(f.Type, "literal") {
				if diff := c.diff(entry.Type, without, absent); diff != "" {
					t.Errorf("without %s:\n%s", f.Name, diff)
				}
			}
			if emitted, err := c.decode(entry.Type, null); err != nil || !reflect.DeepEqual(emitted, without) {
				t.Errorf("%s: null: %v, emitted %s, want %s as if it were absent", f.Name, err, text(emitted), text(without))
			}
		}
	})
}

// wantPath checks that err is an error for the member at path.
func wantPath(t *testing.T, err error, path, rule string) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Path != path || !strings.Contains(e.Rule, rule) {
		t.Errorf("error = %v, want %s %s", err, path, rule)
	}
}

func TestValidateExtendedRequiresExtensionMembers(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	for key, reason := range lenient {
		name, ok := strings.CutPrefix(key, "AgentCard.")
		if !ok || reason != extendedReason {
			continue
		}
		document := c.fullExample(c.types["AgentCard"])
		delete(document, name)
		var card a2a.AgentCard
		if err := wire.Unmarshal(text(document), &card); err != nil {
			t.Fatal(err)
		}
		if err := card.ValidateExtended(); err == nil || !strings.Contains(err.Error(), name+" is required") {
			t.Errorf("ValidateExtended of a card without %s = %v, want an error that names it", name, err)
		}
	}
}

func TestUnknownMembersAreIgnored(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		document := c.fullExample(entry)
		want, err := c.decode(entry.Type, document)
		document["noSuchMember"], document["no_such_member"] = freeForm(), nil
		if got, err2 := c.decode(entry.Type, document); err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("with unknown members: %v, %v, emitted %s, want %s", err, err2, text(got), text(want))
		}
	})
}

func TestFreeFormMembersKeepTheirKeys(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	checked := 0
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		for i := range entry.Fields {
			f := &entry.Fields[i]
			if f.Type != "any" && f.Type != "map<string,any>" {
				continue
			}
			document := c.fullExample(entry)
			document[f.Name] = freeForm()
			emitted, err := c.decode(entry.Type, c.rename(entry.Type, document, ownName, snakeName))
			if err != nil {
				t.Errorf("%s: %v", f.Name, err)
			} else if got := emitted.(map[string]any)[entry.wireName(f)]; !reflect.DeepEqual(got, any(freeForm())) {
				t.Errorf("%s: got %s, want %s", f.Name, text(got), text(freeForm()))
			}
			checked++
		}
	})
	if checked < 60 {
		t.Errorf("%d free-form members were checked, want 60 or more", checked)
	}
}

// Empty objects are kept, except for members that the server omits when it returns client
// input.
func TestEmptyObjectsAreKept(t *testing.T) {
	t.Parallel()
	dropped := []string{
		"TextPart", "FilePart", "DataPart", "Message", "Artifact", "Task", "TaskStatusUpdateEvent", "TaskArtifactUpdateEvent", "Context",
	}
	c := readCatalogue(t)
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		for i := range entry.Fields {
			f := &entry.Fields[i]
			if !strings.HasPrefix(f.Type, "map<") || f.Name != "data" && slices.Contains(dropped, entry.Type) || f.Name == "securitySchemes" {
				continue
			}
			document := c.fullExample(entry)
			document[f.Name] = map[string]any{}
			emitted, err := c.decode(entry.Type, document)
			if err != nil {
				t.Errorf("%s: %v", f.Name, err)
			} else if got := emitted.(map[string]any)[entry.wireName(f)]; !reflect.DeepEqual(got, map[string]any{}) {
				t.Errorf("%s: got %s, want an empty object", f.Name, text(got))
			}
		}
	})
}

func TestMembersAcceptEveryTypeOfTheirUnion(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	checked := 0
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		for i := range entry.Fields {
			f := &entry.Fields[i]
			var values []any
			for _, member := range c.members(f.Type) {
				values = append(values, c.fullExample(member))
			}
			if inner, ok := generic(f.Type, "union"); ok && len(values) == 0 {
				values = c.scalars(inner)
			}
			if len(values) < 2 {
				continue
			}
			for _, value := range values {
				document := c.fullExample(entry)
				document[f.Name] = value
				emitted, err := c.decode(entry.Type, c.rename(entry.Type, document, ownName, snakeName))
				if err != nil {
					t.Errorf("%s is %s: %v", f.Name, text(value), err)
				} else if diff := c.diff(entry.Type, emitted, document); diff != "" {
					t.Errorf("%s:\n%s", f.Name, diff)
				}
				checked++
			}
		}
	})
	if checked < 100 {
		t.Errorf("%d members of unions were checked, want 100 or more", checked)
	}
}

func TestInvalidValuesAreRejectedByName(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		for i := range entry.Fields {
			f := &entry.Fields[i]
			rule := ""
			switch enum := c.types[f.Type]; {
			case enum != nil && enum.Kind == "enum", strings.HasPrefix(f.Type, "union<Negotiation"):
				rule = "want one of"
			case strings.HasPrefix(f.Type, "literal"):
				rule = "want"
			default:
				continue
			}
			for _, value := range []any{"no-such-value", -7.0} {
				document := c.fullExample(entry)
				document[f.Name] = value
				_, err := c.decode(entry.Type, document)
				var e *wire.Error
				if !errors.As(err, &e) || e.Path != entry.wireName(f) || !strings.Contains(e.Rule, rule) && !strings.Contains(e.Rule, "must be") {
					t.Errorf("%s is %v: %v, want an error that names it", f.Name, value, err)
				}
			}
		}
	})
}

func TestEnumsHaveTheValuesOfTheCatalogue(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	c.each(t, "enum", func(t *testing.T, entry *catalogueType) {
		for _, value := range entry.Values {
			if got, err := c.decode(entry.Type, value); err != nil || got != value {
				t.Errorf("%v: got %v, %v", value, got, err)
			}
		}
		zero := reflect.Zero(goTypes[entry.Type]).Interface()
		if openEnums[entry.Type] != "" {
			if ap2.ShippingType("drone").Known() || !ap2.ShippingPickup.Known() {
				t.Error("Known() is wrong for values of AP2 or others")
			}
			return
		}
		n := 0
		switch e := zero.(type) {
		case wire.Enum:
			n = len(e.EnumValues())
		case wire.NumberEnum:
			n = len(e.EnumNumbers())
		}
		if n != len(entry.Values) {
			t.Errorf("%d values are accepted, want the %d of the catalogue", n, len(entry.Values))
		}
		for _, value := range []any{"no-such-value", "", strings.ToUpper(string(text(entry.Values[0]))), 7.0, true, []any{}} {
			if got, err := c.decode(entry.Type, value); err == nil {
				t.Errorf("%v: got %v, want an error", value, got)
			}
		}
	})
}

func TestUnionsDecodeToTheirType(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	c.each(t, "union", func(t *testing.T, entry *catalogueType) {
		if entry.Type == "A2AResponse" { // identified by the request: see below
			return
		}
		for _, value := range entry.Values {
			member := value.(string)
			v := reflect.New(goTypes[entry.Type])
			document := c.fullExample(c.types[member])
			if err := wire.Unmarshal(text(document), v.Interface()); err != nil {
				t.Errorf("%s: %v", member, err)
			} else if got := v.Elem().Elem().Type(); got != goTypes[member] {
				t.Errorf("%s: decoded as %s", member, got)
			}
			emitted, err := c.decode(entry.Type, c.rename(member, document, ownName, snakeName))
			if err != nil {
				t.Errorf("%s: %v", member, err)
			} else if diff := c.diff(member, emitted, document); diff != "" {
				t.Errorf("%s:\n%s", member, diff)
			}
		}
		if emitted, err := c.decode(entry.Type, c.examples[entry.Type]); err != nil {
			t.Error(err)
		} else if diff := c.diff(entry.Type, emitted, c.examples[entry.Type]); diff != "" {
			t.Error(diff)
		}
		for _, bad := range []any{map[string]any{}, map[string]any{"kind": "song", "type": "song", "method": "song"}, map[string]any{"kind": nil}, []any{}, "text"} {
			if got, err := c.decode(entry.Type, bad); err == nil {
				t.Errorf("%s: got %s, want an error", text(bad), text(got))
			}
		}
	})
}

func TestDecodeResponse(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	for i, request := range c.types["A2ARequest"].Values {
		literal, _ := generic(c.types[request.(string)].field("method").Type, "literal")
		method := strings.Trim(literal, `"`)
		name := c.types["A2AResponse"].Values[i].(string)
		got, err := a2a.DecodeResponse(method, text(c.examples[name]))
		if err != nil || reflect.TypeOf(got).Elem() != goTypes[name] {
			t.Errorf("DecodeResponse(%s) = %T, %v, want a %s", method, got, err, goTypes[name])
		} else if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := a2a.DecodeResponse(method, text(c.examples["A2AResponse"])); err != nil || got.Validate() != nil {
			t.Errorf("DecodeResponse(%s) of an error = %+v, %v", method, got, err)
		}
	}
	if _, err := a2a.DecodeResponse("no/such", []byte(`{}`)); a2a.CodeOf(err) != a2a.CodeMethodNotFound {
		t.Errorf("DecodeResponse of an unknown method: %v", err)
	}
	if _, err := a2a.DecodeResponse("tasks/get", []byte(`{}`)); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("DecodeResponse of an empty object: %v", err)
	}
}
