package conversation

import "github.com/holdfast-dev/holdfast/a2a"

// page has the members of a page of tasks that the versions share. Tokens are opaque.
type page struct {
	Tasks []a2a.Task
	More  bool
	Size  int
	Total int
}

// webhook has the members of a webhook that the versions share. The default format differs, and A2A
// 1.0 has no signing secret.
type webhook struct {
	TaskID, ID, URL, Token string
	Authentication         a2a.PushAuthentication
}

// common returns the part of a result that is not specific to a version.
func common(result any) any {
	switch r := result.(type) {
	case *a2a.Event:
		return *r
	case *a2a.ListTasksResult:
		p := page{Tasks: r.Tasks, More: r.NextPageToken != "", Size: r.PageSize, Total: -1}
		if r.TotalSize != nil {
			p.Total = *r.TotalSize
		}
		return p
	case *a2a.TaskPushNotificationConfig:
		return webhookOf(*r)
	case *a2a.ListTaskPushNotificationConfigResult:
		webhooks := make([]webhook, len(r.Configs))
		for i, c := range r.Configs {
			webhooks[i] = webhookOf(c)
		}
		return webhooks
	default:
		return result
	}
}

func webhookOf(c a2a.TaskPushNotificationConfig) webhook {
	return webhook{TaskID: c.TaskID, ID: c.Config.ID, URL: c.Config.URL, Token: c.Config.Token, Authentication: c.Config.Authentication}
}
