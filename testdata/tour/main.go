// Command tour is the agent that docs/tour.md follows through the code: it answers, remembers or recalls.
//
//	tour DIRECTORY ADDRESS
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/webhook"
)

func answer(ctx context.Context, t *holdfast.Turn) error {
	text := t.Text()
	switch {
	case strings.HasPrefix(text, "remember "):
		if err := t.Remember(ctx, strings.TrimPrefix(text, "remember "), facts.RememberParams{}); err != nil {
			return err
		}
	case strings.HasPrefix(text, "recall "):
		if _, err := t.Recall(ctx, strings.TrimPrefix(text, "recall "), facts.RecallParams{}); err != nil {
			return err
		}
	}
	return t.Reply("done")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	agent, err := holdfast.New(holdfast.Config{
		Name: "tour", DataDir: os.Args[1], Webhooks: webhook.Settings{AllowNets: []string{"127.0.0.0/8"}},
	}, holdfast.HandlerFunc(answer))
	if err == nil {
		err = agent.ListenAndServe(ctx, os.Args[2])
	}
	if err != nil {
		log.Fatal(err)
	}
}
