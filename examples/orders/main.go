// The command orders is the agent of docs/tutorial.md: it takes orders, asks for an address once, and charges
// each order once, whatever is killed meanwhile.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// slow is how long each part of the work takes, so that there is time to kill it.
var slow = 3 * time.Second

// order takes an order. The first message of a task says what to send, the second one where to, unless an
// earlier order of the conversation did.
func order(ctx context.Context, t *holdfast.Turn) error {
	item := t.Text()
	if earlier := t.TaskHistory(); len(earlier) > 0 {
		item = earlier[0].Text()
		if err := t.State().Update(ctx, map[string]any{"address": t.Text()}); err != nil {
			return err
		}
	}
	customer, err := t.State().Get(ctx)
	if err != nil {
		return err
	}
	address, known := customer.Values["address"].(string)
	if !known {
		return t.RequireInput("Where should the " + item + " go?")
	}
	receipt, err := holdfast.Step(ctx, t, "charge", func(ctx context.Context) (string, error) {
		return charge(ctx, t.TaskID(), item)
	})
	if err != nil {
		return err
	}
	if err := t.Status("packing"); err != nil {
		return err
	}
	time.Sleep(slow)
	return t.Reply(fmt.Sprintf("The %s goes to %s (%s).", item, address, receipt))
}

// charge stands for a call of a payment service, which takes a while. A call with a key that the service has seen
// before charges nothing.
func charge(ctx context.Context, key, item string) (receipt string, err error) {
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	const ledger = "ledger.txt"
	charged, err := os.ReadFile(ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if !strings.Contains(string(charged), key) {
		charged = fmt.Appendf(charged, "%s %s\n", key, item)
		err = os.WriteFile(ledger, charged, 0o600)
	}
	return "receipt " + key[len(key)-4:], err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	data, closeData, err := open(ctx)
	if err != nil {
		return err
	}
	agent, err := holdfast.New(holdfast.Config{
		Name: "orders", Card: a2a.AgentCard{Description: "takes orders"}, Store: data, Turns: engine.Turns{Lease: 5 * time.Second}, Logger: slog.Default(),
	}, holdfast.HandlerFunc(order))
	if err == nil {
		err = agent.ListenAndServe(ctx, cmp.Or(os.Getenv("ADDR"), "127.0.0.1:3773"))
	}
	return errors.Join(err, closeData())
}

// open opens the store: PostgreSQL if DATABASE_URL is set, otherwise SQLite in a folder. Each process of the
// database applies missing migrations; they wait for each other.
func open(ctx context.Context) (data store.Store, closeData func() error, err error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		s, err := postgres.Open(ctx, postgres.Config{URL: url, Migrate: true})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: "orders-data"})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}
