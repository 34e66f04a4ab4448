package holdfast_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// cart adds each message to the items of the conversation.
func cart(ctx context.Context, t *holdfast.Turn) error {
	state, err := t.State().Get(ctx)
	if err != nil {
		return err
	}
	count, _ := state.Values["count"].(float64)
	err = t.State().Update(ctx, map[string]any{
		"count": count + 1,
		"items": map[string]any{t.Text(): true},
	})
	if err != nil {
		return err
	}
	return t.Reply(fmt.Sprintf("%v items in the cart", count+1))
}

// plan works on the next task of the conversation's board.
func plan(ctx context.Context, t *holdfast.Turn) error {
	root, err := t.Board().OpenRoot(ctx, boards.Params{Label: "Report"}, "read", "summarize")
	if err != nil {
		return err
	}
	for _, task := range root.Tasks {
		if task.Status != board.Planned {
			continue
		}
		if _, err := t.Board().SetStatus(ctx, root.ID, task.ID, board.InProgress, ""); err != nil {
			return err
		}
		// Work on the task here, in a step.
		if _, err := t.Board().SetStatus(ctx, root.ID, task.ID, board.Succeeded, "done"); err != nil {
			return err
		}
		return t.Reply("finished: " + task.Title)
	}
	return t.Reply("nothing left to do")
}

func ExampleTurn_State() {
	converse(cart, "apple", "pear")
	// Output:
	// 1 items in the cart
	// 2 items in the cart
}

// notebook answers with the note that fits best, and remembers each message as a note.
func notebook(ctx context.Context, t *holdfast.Turn) error {
	found, err := t.Recall(ctx, t.Text(), facts.RecallParams{Limit: 1})
	if err != nil {
		return err
	}
	if err := t.Remember(ctx, t.Text(), facts.RememberParams{}); err != nil {
		return err
	}
	if err := t.Transcript().AppendText(ctx, "user", t.Text()); err != nil {
		return err
	}
	if len(found) == 0 {
		return t.Reply("noted")
	}
	return t.Reply("related: " + found[0].Content)
}

func ExampleTurn_Remember() {
	converse(notebook, "The backup runs at noon.", "When does the backup run?")
	// Output:
	// noted
	// related: The backup runs at noon.
}

func ExampleTurn_Transcript() {
	converse(func(ctx context.Context, t *holdfast.Turn) error {
		if err := t.Transcript().AppendText(ctx, "user", t.Text()); err != nil {
			return err
		}
		newest, err := t.Transcript().Tail(ctx, 2)
		if err != nil {
			return err
		}
		answer := ""
		for _, m := range newest {
			answer += string(m.Body)
		}
		return t.Reply(answer)
	}, "one", "two", "three")
	// Output:
	// "one"
	// "one""two"
	// "two""three"
}

// reminder answers with the earlier message of the conversation that is closest: by meaning if the agent has an
// embedder, otherwise by words.
func reminder(ctx context.Context, t *holdfast.Turn) error {
	messages := t.Documents("messages")
	_, err := messages.Upsert(ctx, vector.WriteParams{Documents: []vector.Document{
		{ID: t.Message().ID, Text: t.Text(), Metadata: map[string]any{"context": t.ContextID()}},
	}})
	if err != nil {
		return err
	}
	found, err := messages.Search(ctx, vector.SearchParams{
		Queries: []vector.Query{{Text: t.Text()}}, Limit: 2, Filter: filter.Eq("context", t.ContextID()),
	})
	if err != nil {
		return err
	}
	for _, hit := range found[0].Hits {
		if hit.ID != t.Message().ID {
			return t.Reply("you said: " + hit.Text)
		}
	}
	return t.Reply("noted")
}

func ExampleTurn_Documents() {
	converse(reminder, "The backup runs at noon.", "When does the backup run?")
	// Output:
	// noted
	// you said: The backup runs at noon.
}

// upper stores the message as a file, and answers with its content.
func upper(ctx context.Context, t *holdfast.Turn) error {
	text := strings.NewReader(strings.ToUpper(t.Text()))
	info, err := t.Blobs().Put(ctx, text, blobs.Params{Name: "upper.txt", ContentType: "text/plain"})
	if err != nil {
		return err
	}
	r, _, err := t.Blobs().Open(ctx, info.Ref)
	if err != nil {
		return err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return t.Reply(fmt.Sprintf("%s: %s, %d bytes", content, info.Name, info.Size))
}

func ExampleTurn_Blobs() {
	converse(upper, "hello")
	// Output: HELLO: upper.txt, 5 bytes
}

func ExampleTurn_Board() {
	converse(plan, "go", "go", "go")
	// Output:
	// finished: read
	// finished: summarize
	// nothing left to do
}

// colleagues keeps messages such as "Ada works on Engine" as a graph, and answers with all people who work
// on the same project.
func colleagues(ctx context.Context, t *holdfast.Turn) error {
	name, project, _ := strings.Cut(t.Text(), " works on ")
	person, work := "person/"+name, "project/"+project
	g := t.Graph("")
	_, _, err := g.Write(ctx, graph.Batch{
		Entities: []graph.Entity{
			{ID: person, Label: "Person", Properties: map[string]any{"name": name}},
			{ID: work, Label: "Project", Properties: map[string]any{"name": project}},
		},
		Relationships: []graph.Relationship{{ID: person + "/" + work, Source: person, Type: "works_on", Target: work}},
	})
	if err != nil {
		return err
	}
	found, err := cypher.Query(ctx, g, graph.CypherParams{
		Query:  "MATCH (p:Person)-[:works_on]->(w:Project) WHERE w.name = $project RETURN p.name AS name ORDER BY name",
		Params: map[string]any{"project": project},
	})
	if err != nil {
		return err
	}
	return t.Reply(fmt.Sprint(found.Rows))
}

func ExampleTurn_Graph() {
	converse(colleagues, "Ravi works on Engine", "Ada works on Engine", "Ada works on Loom")
	// Output:
	// [[Ravi]]
	// [[Ada] [Ravi]]
	// [[Ada]]
}

// converse prints the answers of a handler to messages of one conversation.
func converse(h holdfast.HandlerFunc, texts ...string) {
	agent, err := holdfast.New(holdfast.Config{Name: "agent", Store: inmem.New()}, h)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- agent.Serve(ctx, ln) }()

	c, err := client.New(client.Config{URL: "http://" + ln.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	contextID := ""
	for _, text := range texts {
		message := client.Text(text)
		message.ContextID = contextID
		result, err := c.Send(ctx, client.SendParams{Message: message, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if err != nil {
			log.Fatal(err)
		}
		task := result.(*a2a.Task)
		contextID = task.ContextID
		fmt.Println(task.Status.Message.Text())
	}
	stop()
	<-served
}
