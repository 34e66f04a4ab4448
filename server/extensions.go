package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// URIs of the extensions that the agent card declares.
const (
	extensionsDoc = "https://github.com/holdfast-dev/holdfast/blob/main/docs/extensions.md"

	ExtensionList       = extensionsDoc + "#list-tasks"
	ExtensionResume     = extensionsDoc + "#resume-streams"
	ExtensionRepeatable = extensionsDoc + "#repeatable-requests"
	ExtensionClientIDs  = extensionsDoc + "#ids-made-by-clients"
	ExtensionContexts   = extensionsDoc + "#contexts"
	ExtensionFeedback   = extensionsDoc + "#feedback"
	ExtensionWebhooks   = extensionsDoc + "#webhooks"
	ExtensionDelete     = extensionsDoc + "#delete-tasks"
	ExtensionStates     = extensionsDoc + "#additional-states-and-roles"
)

// extensions returns the extensions of a server.
func extensions(cfg Config) []a2a.AgentExtension {
	all := []a2a.AgentExtension{
		{URI: ExtensionList, Description: "tasks/list pages through the caller's tasks, newest first, with filters by context, state and time."},
		{URI: ExtensionRepeatable, Description: "message/send, message/stream, tasks/cancel, tasks/feedback, contexts/create and contexts/update are safe to repeat with an Idempotency-Key header."},
		{URI: ExtensionClientIDs, Description: "A message may start a task with a taskId and contextId chosen by its client."},
		{URI: ExtensionContexts, Description: "contexts/list, get, create, update and clear manage the conversations that the caller's tasks belong to."},
		{URI: ExtensionFeedback, Description: "tasks/feedback stores a comment and a rating of a task; tasks/feedback/list returns them."},
		{URI: ExtensionDelete, Description: "tasks/delete deletes a finished task with all its data."},
		{URI: ExtensionStates, Description: "Tasks may have states, and messages roles, that A2A lacks. Where the version has no name for one, the most similar is sent and the metadata has the original."},
	}
	if !cfg.Requests.StreamingOff {
		all = append(all, a2a.AgentExtension{URI: ExtensionResume, Description: "Stream events have ids; tasks/resubscribe with Last-Event-ID replays exactly what was missed, also after a restart and for finished tasks."})
	}
	if cfg.Webhook != nil {
		all = append(all, a2a.AgentExtension{URI: ExtensionWebhooks, Description: "Webhooks receive every update in order, signed, in the payload format of their configuration, with retries until it is delivered; webhooks/dead/list, webhooks/attempts and webhooks/replay list failed deliveries and repeat them."})
	}
	return all
}

// The headers of requests and responses that list extensions, in A2A 1.0 and 0.3.
const (
	extensionsHeader    = "A2A-Extensions"
	extensionsHeaderV03 = "X-A2A-Extensions"
)

var extensionHeaders = []string{http.CanonicalHeaderKey(extensionsHeader), http.CanonicalHeaderKey(extensionsHeaderV03)}

// activateExtensions activates the extensions that a request lists and the card declares. The
// response lists them in the header in which they were requested.
func (s *Server) activateExtensions(x *exchange.Exchange) {
	for _, name := range extensionHeaders {
		var active []string
		for _, header := range x.Request.Header[name] {
			for uri := range strings.SplitSeq(header, ",") {
				uri = strings.TrimSpace(uri)
				declared := func(e a2a.AgentExtension) bool { return e.URI == uri }
				if slices.ContainsFunc(s.card.Capabilities.Extensions, declared) && !slices.Contains(active, uri) {
					active = append(active, uri)
				}
			}
		}
		if len(active) > 0 {
			x.Header().Set(name, strings.Join(active, ", "))
			x.Extensions = append(x.Extensions, active...)
			x.Extended = x.Extended || slices.ContainsFunc(active, func(uri string) bool { return strings.HasPrefix(uri, extensionsDoc) })
		}
	}
}

// requireExtensions returns an interceptor that rejects calls without a required extension of all.
func requireExtensions(all []a2a.AgentExtension) rpc.Interceptor {
	var required []string
	for _, e := range all {
		if e.Required {
			required = append(required, e.URI)
		}
	}
	return func(_ *a2a.Method, next rpc.Handler) rpc.Handler {
		if len(required) == 0 {
			return next
		}
		return func(ctx context.Context, c *rpc.Call) (any, error) {
			for _, uri := range required {
				if !slices.Contains(c.Extensions, uri) {
					header := extensionsHeaderV03
					if c.Codec.Version() == (v10.Codec{}).Version() {
						header = extensionsHeader
					}
					return nil, a2a.Errorf(a2a.CodeExtensionRequired, "the extension %s is required: list it in the header %s", uri, header)
				}
			}
			return next(ctx, c)
		}
	}
}
