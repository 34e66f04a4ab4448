package v10

import (
	"fmt"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

// The numbers of fields of A2A 1.1, which the messages of A2A 1.0 lack.
const (
	taskGeneration     = 7
	statusGeneration   = 5
	artifactGeneration = 7
	currentGeneration  = 4 // of GetTaskRequest
	ifGenerationMatch  = 5 // of SendMessageConfiguration
)

func protoName(m *a2a.Method) protoreflect.Name { return protoreflect.Name(m.NameV10) }

func sendParams(m *pb.SendMessageRequest, p *a2a.MessageSendParams) (err error) {
	if m.GetMessage() == nil {
		return &wire.Error{Path: "message", Rule: "is required"}
	}
	if p.Message, err = toMessage(m.GetMessage()); err != nil {
		return message.At("message", err)
	}
	p.Configuration = &a2a.MessageSendConfiguration{Blocking: true}
	if c := m.GetConfiguration(); c != nil {
		p.Configuration = &a2a.MessageSendConfiguration{
			AcceptedOutputModes: c.GetAcceptedOutputModes(), Blocking: !c.GetReturnImmediately(), HistoryLength: message.Int(c.HistoryLength),
		}
		if push := c.GetTaskPushNotificationConfig(); push != nil {
			config := pushConfig(push)
			p.Configuration.PushNotificationConfig = &config
		}
		p.Configuration.IfGenerationMatch = message.LaterInt64(c, ifGenerationMatch)
	}
	p.Metadata, err = message.Map(m.GetMetadata())
	return message.At("metadata", err)
}

func queryParams(m *pb.GetTaskRequest, p *a2a.TaskQueryParams) error {
	p.ID, p.HistoryLength = m.GetId(), message.Int(m.HistoryLength)
	p.CurrentGeneration = message.LaterInt64(m, currentGeneration)
	return nil
}

// idParams decodes the requests of CancelTask and SubscribeToTask, which has no metadata.
func idParams(m *pb.CancelTaskRequest, p *a2a.TaskIDParams) (err error) {
	p.ID = m.GetId()
	p.Metadata, err = message.Map(m.GetMetadata())
	return message.At("metadata", err)
}

// listParams decodes ListTasksRequest. Official clients send the page size 0 for the default.
func listParams(m *pb.ListTasksRequest, p *a2a.ListTasksParams) (err error) {
	p.ContextID, p.PageToken = m.GetContextId(), m.GetPageToken()
	p.PageSize, p.HistoryLength = message.NonZero(m.GetPageSize()), message.Int(m.HistoryLength)
	p.IncludeArtifacts, p.IncludeTotal = m.GetIncludeArtifacts(), true
	if m.GetStatus() != pb.TaskState_TASK_STATE_UNSPECIFIED {
		state, err := toState(m.GetStatus())
		if err != nil {
			return message.At("status", err)
		}
		p.States = jsonv10.ShownAs(state)
	}
	p.StatusAfter, err = message.Time(m.GetStatusTimestampAfter())
	return message.At("statusTimestampAfter", err)
}

func pushConfig(m *pb.TaskPushNotificationConfig) a2a.PushNotificationConfig {
	c := a2a.PushNotificationConfig{ID: m.GetId(), URL: m.GetUrl(), Token: m.GetToken()}
	if a := m.GetAuthentication(); a != nil {
		c.Authentication = a2a.PushNotificationAuthenticationInfo{Schemes: []string{a.GetScheme()}, Credentials: a.GetCredentials()}
	}
	return c
}

func fromPushConfig(c *a2a.TaskPushNotificationConfig) *pb.TaskPushNotificationConfig {
	out := &pb.TaskPushNotificationConfig{Id: c.Config.ID, TaskId: c.TaskID, Url: c.Config.URL, Token: c.Config.Token}
	if schemes, credentials := message.Authentication(c.Config.Authentication); len(schemes) > 0 {
		out.Authentication = &pb.AuthenticationInfo{Scheme: schemes[0], Credentials: credentials}
	}
	return out
}

// The states and roles of the model by the numbers of the enums.
var (
	states = []a2a.TaskState{
		a2a.StateUnknown, a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed,
		a2a.StateCanceled, a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	}
	roles = []a2a.Role{"", a2a.RoleUser, a2a.RoleAgent}
)

func toState(s pb.TaskState) (a2a.TaskState, error) {
	if s < 0 || int(s) >= len(states) {
		return "", &wire.Error{Rule: fmt.Sprintf("is %d, which is not a TaskState", s)}
	}
	return states[s], nil
}
