package suite_test

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/internal/jsonschema"
	"github.com/holdfast-dev/holdfast/rpc"
)

// schemas are the official JSON schemas by version. A schema is absent if its path is not in the
// environment.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	out := make(map[string]*jsonschema.Schema)
	for variable, version := range map[string]string{"HOLDFAST_SCHEMA_V03": "0.3", "HOLDFAST_SCHEMA_V10": "1.0"} {
		name := os.Getenv(variable)
		if name == "" {
			continue
		}
		s, err := jsonschema.Load(name)
		if err != nil {
			return nil, err
		}
		out[version] = s
	}
	return out, nil
})

// resultTypes are the definitions of results by method, of A2A 0.3 and of 1.0.
var resultTypes = map[string][2]string{
	a2a.MethodSend:         {"SendMessageSuccessResponse.result", "Send Message Response"},
	a2a.MethodStream:       {"SendStreamingMessageSuccessResponse.result", "Stream Response"},
	a2a.MethodResubscribe:  {"SendStreamingMessageSuccessResponse.result", "Stream Response"},
	a2a.MethodGet:          {"Task", "Task"},
	a2a.MethodCancel:       {"Task", "Task"},
	a2a.MethodList:         {"", "List Tasks Response"},
	a2a.MethodPushSet:      {"TaskPushNotificationConfig", "Task Push Notification Config"},
	a2a.MethodPushGet:      {"TaskPushNotificationConfig", "Task Push Notification Config"},
	a2a.MethodPushList:     {"ListTaskPushNotificationConfigSuccessResponse.result", "List Task Push Notification Configs Response"},
	a2a.MethodExtendedCard: {"AgentCard", "Agent Card"},
}

// checkSchema validates a result against the official schema, if its path is known.
func checkSchema(t *testing.T, codec rpc.Codec, method string, raw json.RawMessage) {
	t.Helper()
	name := resultTypes[method][1]
	switch codec.(type) {
	case v03.ProtoCodec:
		return // the schema describes JSON-RPC
	case v03.Codec:
		name = resultTypes[method][0]
	}
	checkDefinition(t, codec, name, raw)
}

// checkDefinition validates a value against a definition of the official schema, or a property of
// one, if its path is known.
func checkDefinition(t *testing.T, codec rpc.Codec, name string, raw json.RawMessage) {
	t.Helper()
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	version := codec.Version()[:len("0.3")]
	root := all[version]
	if root == nil || name == "" {
		return
	}
	if problem := root.Problem(name, raw); problem != "" {
		t.Errorf("%s = %s\nbreaks the schema of A2A %s: %s", name, raw, version, problem)
	}
}
