package v03

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/a2aproject/a2a-go/a2apb"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

const (
	tasksPrefix   = "tasks/"
	configsMiddle = "/pushNotificationConfigs/"
)

// taskName returns the id in the resource name of a task.
func taskName(field, name string) (id string, err error) {
	id, ok := strings.CutPrefix(name, tasksPrefix)
	if !ok || id == "" {
		return "", &wire.Error{Path: field, Rule: "is " + a2a.Quote(name) + ", want tasks/{id}"}
	}
	return id, nil
}

// configName returns the ids in the resource name of a webhook. If the name has no id of a
// webhook, it means the task's only webhook.
func configName(name string) (task, config string, err error) {
	if i := strings.LastIndex(name, configsMiddle); i >= 0 {
		name, config = name[:i], name[i+len(configsMiddle):]
	}
	if task, err = taskName("name", name); err != nil {
		err = &wire.Error{Path: "name", Rule: "must be tasks/{id}/pushNotificationConfigs/{id}"}
	}
	return task, config, err
}

func sendParams(m *pb.SendMessageRequest, p *a2a.MessageSendParams) (err error) {
	if m.GetRequest() == nil {
		return &wire.Error{Path: "message", Rule: "is required"}
	}
	if p.Message, err = toMessage(m.GetRequest()); err != nil {
		return message.At("message", err)
	}
	if c := m.GetConfiguration(); c != nil {
		p.Configuration = &a2a.MessageSendConfiguration{
			AcceptedOutputModes: c.GetAcceptedOutputModes(), Blocking: c.GetBlocking(), HistoryLength: message.NonZero(c.GetHistoryLength()),
		}
		if push := c.GetPushNotification(); push != nil {
			config := pushConfig(push)
			p.Configuration.PushNotificationConfig = &config
		}
	}
	p.Metadata, err = message.Map(m.GetMetadata())
	return message.At("metadata", err)
}

func queryParams(m *pb.GetTaskRequest, p *a2a.TaskQueryParams) (err error) {
	p.HistoryLength = message.NonZero(m.GetHistoryLength())
	p.ID, err = taskName("name", m.GetName())
	return err
}

// idParams decodes the requests of CancelTask and TaskSubscription.
func idParams(m *pb.CancelTaskRequest, p *a2a.TaskIDParams) (err error) {
	p.ID, err = taskName("name", m.GetName())
	return err
}

func listParams(m *pb.ListTasksRequest, p *a2a.ListTasksParams) (err error) {
	p.ContextID, p.PageToken = m.GetContextId(), m.GetPageToken()
	p.PageSize, p.HistoryLength = message.NonZero(m.GetPageSize()), message.NonZero(m.GetHistoryLength())
	p.IncludeArtifacts, p.IncludeTotal = m.GetIncludeArtifacts(), true
	if m.GetStatus() != pb.TaskState_TASK_STATE_UNSPECIFIED {
		state, err := toState(m.GetStatus())
		if err != nil {
			return message.At("status", err)
		}
		p.States = jsonv10.ShownAs(state)
	}
	p.StatusAfter, err = message.Time(m.GetLastUpdatedTime())
	return message.At("lastUpdatedTime", err)
}

// pushParams decodes CreateTaskPushNotificationConfigRequest. The id of the webhook is a field of
// the request or of the webhook.
func pushParams(m *pb.CreateTaskPushNotificationConfigRequest, p *a2a.TaskPushNotificationConfig) (err error) {
	if p.TaskID, err = taskName("parent", m.GetParent()); err != nil {
		return err
	}
	p.Config = pushConfig(m.GetConfig().GetPushNotificationConfig())
	p.Config.ID = cmp.Or(m.GetConfigId(), p.Config.ID)
	return nil
}

func pushConfig(m *pb.PushNotificationConfig) a2a.PushNotificationConfig {
	c := a2a.PushNotificationConfig{ID: m.GetId(), URL: m.GetUrl(), Token: m.GetToken()}
	if a := m.GetAuthentication(); a != nil {
		c.Authentication = a2a.PushNotificationAuthenticationInfo{Schemes: a.GetSchemes(), Credentials: a.GetCredentials()}
	}
	return c
}

func fromPushConfig(c *a2a.TaskPushNotificationConfig) *pb.TaskPushNotificationConfig {
	out := &pb.TaskPushNotificationConfig{
		Name:                   tasksPrefix + c.TaskID + configsMiddle + c.Config.ID,
		PushNotificationConfig: &pb.PushNotificationConfig{Id: c.Config.ID, Url: c.Config.URL, Token: c.Config.Token},
	}
	if schemes, credentials := message.Authentication(c.Config.Authentication); len(schemes) > 0 {
		out.PushNotificationConfig.Authentication = &pb.AuthenticationInfo{Schemes: schemes, Credentials: credentials}
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
