package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// These methods make encoding/json write and read the JSON of A2A 0.3 with its extensions: with the
// constant members such as kind, and the interface types [Part], [File] and [SecurityScheme].
// Types without methods need none: their json tags suffice. Package a2a/v03 does not use them.

func (s APIKeySecurityScheme) MarshalJSON() ([]byte, error) { return wire.Marshal(s) }
func (c AgentCard) MarshalJSON() ([]byte, error)            { return wire.Marshal(c) }
func (a AgentIdentity) MarshalJSON() ([]byte, error)        { return wire.Marshal(a) }
func (a Artifact) MarshalJSON() ([]byte, error)             { return wire.Marshal(a) }
func (v AuthenticatedExtendedCardNotConfiguredError) MarshalJSON() ([]byte, error) {
	return wire.Marshal(v)
}
func (v AuthenticationRequiredError) MarshalJSON() ([]byte, error)  { return wire.Marshal(v) }
func (v CancelTaskRequest) MarshalJSON() ([]byte, error)            { return wire.Marshal(v) }
func (v ClearContextsRequest) MarshalJSON() ([]byte, error)         { return wire.Marshal(v) }
func (v ContentTypeNotSupportedError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }
func (c Context) MarshalJSON() ([]byte, error)                      { return wire.Marshal(c) }
func (v ContextNotCancelableError) MarshalJSON() ([]byte, error)    { return wire.Marshal(v) }
func (v ContextNotFoundError) MarshalJSON() ([]byte, error)         { return wire.Marshal(v) }
func (p DataPart) MarshalJSON() ([]byte, error)                     { return wire.Marshal(p) }
func (v DeadLetter) MarshalJSON() ([]byte, error)                   { return wire.Marshal(v) }
func (v DeleteTaskPushNotificationConfigRequest) MarshalJSON() ([]byte, error) {
	return wire.Marshal(v)
}

func (r ExecutionResponse) MarshalJSON() ([]byte, error) { return wire.Marshal(r) }

func (f FilePart) MarshalJSON() ([]byte, error) { return wire.Marshal(f) }

func (v GetAuthenticatedExtendedCardRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v GetTaskPushNotificationRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v GetTaskRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (s HTTPAuthSecurityScheme) MarshalJSON() ([]byte, error) { return wire.Marshal(s) }

func (v InsufficientPermissionsError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v InternalError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v InvalidAgentResponseError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v InvalidParamsError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v InvalidRequestError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v InvalidTokenError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v InvalidTokenSignatureError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v JSONParseError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v JSONRPCMessage) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v JSONRPCRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v ListContextsRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v ListTaskPushNotificationConfigRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (l ListTasksParams) MarshalJSON() ([]byte, error) { return wire.Marshal(l) }

func (v ListTasksRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (m Message) MarshalJSON() ([]byte, error) { return wire.Marshal(m) }

func (v MethodNotFoundError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v MutualTLSSecurityScheme) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (n NegotiationProposal) MarshalJSON() ([]byte, error) { return wire.Marshal(n) }

func (s OAuth2SecurityScheme) MarshalJSON() ([]byte, error) { return wire.Marshal(s) }

func (s OpenIDConnectSecurityScheme) MarshalJSON() ([]byte, error) { return wire.Marshal(s) }

func (v PushAttempt) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v PushDelivery) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (c PushNotificationConfig) MarshalJSON() ([]byte, error) { return wire.Marshal(c) }

func (v PushNotificationNotSupportedError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v Response[R]) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v ResubscribeTaskRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v SendMessageRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v SetTaskPushNotificationRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v SkillNotFoundError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v StreamMessageRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v StringOrInt) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v Task) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskArtifactUpdateEvent) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskFeedback) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskFeedbackRequest) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskImmutableError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskNotCancelableError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskNotFoundError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskStatus) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v TaskStatusUpdateEvent) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (t TextPart) MarshalJSON() ([]byte, error) { return wire.Marshal(t) }

func (v TokenExpiredError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (v UnsupportedOperationError) MarshalJSON() ([]byte, error) { return wire.Marshal(v) }

func (s *APIKeySecurityScheme) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, s) }
func (c *AgentCard) UnmarshalJSON(data []byte) error            { return wire.Unmarshal(data, c) }
func (a *AgentIdentity) UnmarshalJSON(data []byte) error        { return wire.Unmarshal(data, a) }
func (a *Artifact) UnmarshalJSON(data []byte) error             { return wire.Unmarshal(data, a) }
func (v *AuthenticatedExtendedCardNotConfiguredError) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}

func (v *AuthenticationRequiredError) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}
func (v *CancelTaskRequest) UnmarshalJSON(data []byte) error    { return wire.Unmarshal(data, v) }
func (v *ClearContextsRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }
func (v *ContentTypeNotSupportedError) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}

func (c *Context) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, c) }

func (v *ContextNotCancelableError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *ContextNotFoundError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (p *DataPart) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, p) }

func (v *DeadLetter) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *DeleteTaskPushNotificationConfigRequest) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}
func (r *ExecutionResponse) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, r) }
func (f *FilePart) UnmarshalJSON(data []byte) error          { return wire.Unmarshal(data, f) }
func (v *GetAuthenticatedExtendedCardRequest) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}

func (v *GetTaskPushNotificationRequest) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}
func (v *GetTaskRequest) UnmarshalJSON(data []byte) error         { return wire.Unmarshal(data, v) }
func (s *HTTPAuthSecurityScheme) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, s) }
func (v *InsufficientPermissionsError) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}

func (v *InternalError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *InvalidAgentResponseError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *InvalidParamsError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *InvalidRequestError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *InvalidTokenError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *InvalidTokenSignatureError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *JSONParseError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *JSONRPCMessage) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *JSONRPCRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *ListContextsRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *ListTaskPushNotificationConfigRequest) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}

func (l *ListTasksParams) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, l) }

func (v *ListTasksRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (m *Message) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, m) }

func (v *MethodNotFoundError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *MutualTLSSecurityScheme) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (n *NegotiationProposal) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, n) }

func (s *OAuth2SecurityScheme) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, s) }

func (s *OpenIDConnectSecurityScheme) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, s)
}
func (v *PushAttempt) UnmarshalJSON(data []byte) error            { return wire.Unmarshal(data, v) }
func (v *PushDelivery) UnmarshalJSON(data []byte) error           { return wire.Unmarshal(data, v) }
func (c *PushNotificationConfig) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, c) }
func (v *PushNotificationNotSupportedError) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}
func (v *Response[R]) UnmarshalJSON(data []byte) error            { return wire.Unmarshal(data, v) }
func (v *ResubscribeTaskRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }
func (v *SendMessageRequest) UnmarshalJSON(data []byte) error     { return wire.Unmarshal(data, v) }
func (v *SetTaskPushNotificationRequest) UnmarshalJSON(data []byte) error {
	return wire.Unmarshal(data, v)
}

func (v *SkillNotFoundError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *StreamMessageRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *StringOrInt) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *Task) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskArtifactUpdateEvent) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskFeedback) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskFeedbackRequest) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskImmutableError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskNotCancelableError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskNotFoundError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskStatus) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *TaskStatusUpdateEvent) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (t *TextPart) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, t) }

func (v *TokenExpiredError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }

func (v *UnsupportedOperationError) UnmarshalJSON(data []byte) error { return wire.Unmarshal(data, v) }
