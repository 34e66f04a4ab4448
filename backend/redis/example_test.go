//go:build services

package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/backend/redis"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func Example() {
	ctx := context.Background()
	s, err := redis.Open(ctx, redis.Config{URL: "redis://localhost:6379/0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	key := history.Key{Owner: "alice", Agent: "shop", Session: "s1"}
	_, err = s.History().Append(ctx, key, history.AppendParams{
		Messages: []history.Message{{Role: "user", Body: []byte(`"Two tickets, please."`)}}, TTL: 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	states, err := s.ShortTerm(memory.ShortTermConfig{TTL: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	st, err := states.Update(ctx, memory.Key{Owner: "alice", Agent: "shop", Session: "s1"}, map[string]any{"tickets": 2}, memory.AnyVersion)
	fmt.Println(st.Values["tickets"], err)
}
