package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/cli"
)

func TestWebhooksOfServersWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	const webhook = `{"taskId":"t","pushNotificationConfig":{"id":"w","url":"https://example.com/"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // it has no agent card
			http.NotFound(w, r)
			return
		}
		var call struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		answer := `"error":{"code":-32601,"message":"Method not found"}`
		switch call.Method {
		case "tasks/pushNotificationConfig/list":
			answer = `"result":[` + webhook + `]`
		case "tasks/pushNotificationConfig/get":
			answer = `"result":` + webhook
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, call.ID, answer)
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"list", "t"}, "  ?  "},
		{[]string{"get", "t", "w"}, "webhook w"},
	} {
		var out, errs strings.Builder
		args := append(append([]string{"holdfast", "webhooks"}, c.command...), "--server", server.URL)
		code := cli.Main(context.Background(), cli.Program{Args: args, Stdout: &out, Stderr: &errs})
		if code != 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v = %d, %s%s, want %q", c.command, code, &out, &errs, c.want)
		}
	}
}
