package history_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
)

// The example appends the messages of a run, reads the newest ones, and shows that an append
// which expects an older state is rejected.
func Example() {
	ctx := context.Background()
	transcript := historysql.Of(inmem.New())
	key := history.Key{Owner: "alice", Agent: "travel", Session: "s1"}
	_, err := transcript.Append(ctx, key, history.AppendParams{
		Run: "run-1",
		Messages: []history.Message{
			{Role: "user", Body: []byte(`{"text":"Weather in Oslo?"}`)},
			{Role: "assistant", Body: []byte(`{"tool":"weather"}`), ToolCalls: []string{"call-1"}},
			{Role: "tool", Body: []byte(`{"text":"Snow"}`), ToolResults: []string{"call-1"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	q := history.Tail(2)
	q.KeepToolPairs = true
	page, err := transcript.Page(ctx, key, q)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range page.Messages {
		fmt.Println(m.Seq, m.Role, string(m.Body))
	}

	_, err = transcript.Append(ctx, key, history.AppendParams{
		Messages: []history.Message{{Role: "user", Body: []byte(`{"text":"Thanks"}`)}},
		Expected: new(int64(1)),
	})
	fmt.Println(errors.Is(err, history.ErrConflict))
	// Output:
	// 2 assistant {"tool":"weather"}
	// 3 tool {"text":"Snow"}
	// true
}
