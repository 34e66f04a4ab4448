package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/server"
)

func TestErrorDataIsAnArrayForClientsThatAnnounceTheVersion(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	type info struct {
		Type     string `json:"@type"`
		Reason   string
		Domain   string
		Metadata map[string]string
	}
	for _, tt := range []struct {
		user, version, body string
		reason              string // "" for an object
		metadata            map[string]string
	}{
		{"alice", "0.3", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"absent"}}`, "TASK_NOT_FOUND", map[string]string{"code": "task_not_found"}},
		{"alice", "0.3.0", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, "INVALID_PARAMS", map[string]string{"code": "invalid_params", "field": "id"}},
		{"alice", "0.3", `{`, "PARSE_ERROR", map[string]string{"code": "parse_error"}},
		{"nobody", "0.3", `{}`, "UNAUTHENTICATED", map[string]string{"code": "unauthenticated"}},
		{"alice", "", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, "", nil},
		{"alice", "0.30", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, "", nil},
	} {
		resp, err := e.client.Do(e.request(http.MethodPost, "/", tt.body, headers{"A2A-Version", tt.version, "User", tt.user}))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var out struct {
			Error struct{ Data json.RawMessage }
		}
		if err != nil || json.Unmarshal(raw, &out) != nil {
			t.Fatalf("response %s: %v", raw, err)
		}
		if tt.reason == "" {
			if out.Error.Data[0] != '{' {
				t.Errorf("A2A-Version %q: error data is %s, want an object", tt.version, out.Error.Data)
			}
			continue
		}
		var got []info
		if err := json.Unmarshal(out.Error.Data, &got); err != nil || len(got) != 1 {
			t.Errorf("A2A-Version %q: error data is %s, want an array of one ErrorInfo", tt.version, out.Error.Data)
			continue
		}
		if got[0].Metadata["requestId"] == "" {
			t.Errorf("metadata = %v, want the request id", got[0].Metadata)
		}
		delete(got[0].Metadata, "requestId")
		want := info{"type.googleapis.com/google.rpc.ErrorInfo", tt.reason, "a2a-protocol.org", tt.metadata}
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("error data of %s (-want +got)\n%s", tt.body, diff)
		}
	}
}
