package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
)

func TestProf(t *testing.T) {
	s := startServer(t)
	h := open(t, Config{URL: s.url()}).History()
	messages := benchMessages(1)
	c := s.client(t)
	for _, n := range []int{1, 64} {
		c.ConfigResetStat(bg)
		ctx, cancel := context.WithTimeout(bg, 4*time.Second)
		b := &testing.B{}
		calls := callers(b, ctx, n, func(i int) error {
			_, err := h.Append(bg, history.Key{Owner: "owner", Agent: "agent", Session: fmt.Sprint(i)}, history.AppendParams{Messages: messages, Run: "run"})
			return err
		})
		cancel()
		info, _ := c.Info(bg, "commandstats", "cpu").Result()
		fmt.Println(n, calls/4, info)
	}
}
