package grpc_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast"
)

// Links do not have the host of a gRPC call: they are relative, or have the URL of the agent.
func TestLargeFilesOverGRPC(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"": "/blobs/", "https://agent.example.com/": "https://agent.example.com/blobs/"} {
		e := start(t, func(c *holdfast.Config) { c.Card.URL = url })
		c := pb.NewA2AServiceClient(e.conn)
		small, large := bytes.Repeat([]byte("s"), 100_000), bytes.Repeat([]byte("l"), 2<<20)
		m := message("00000000-0000-7000-8000-000000000001", "parts")
		for _, raw := range [][]byte{small, large} {
			m.Message.Parts = append(m.Message.Parts, &pb.Part{Content: &pb.Part_Raw{Raw: raw}, Filename: "f"})
		}
		sent, err := c.SendMessage(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		parts := sent.GetTask().GetArtifacts()[0].GetParts()
		if len(parts) != 3 || !bytes.Equal(parts[1].GetRaw(), small) || !strings.HasPrefix(parts[2].GetUrl(), want) {
			t.Fatalf("the artifact has %d parts, want the small file and a link to the large one", len(parts))
		}
		path := parts[2].GetUrl()[strings.Index(parts[2].GetUrl(), "/blobs/"):]
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(e.http, "/")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !bytes.Equal(body, large) {
			t.Errorf("GET of the link = %s with %d bytes, %v", resp.Status, len(body), err)
		}
		links, err := c.GetTask(with(t, "holdfast-files", "links"), &pb.GetTaskRequest{Id: sent.GetTask().GetId()})
		if err != nil || !strings.HasPrefix(links.GetArtifacts()[0].GetParts()[1].GetUrl(), want) {
			t.Errorf("GetTask() with links = %v", err)
		}
		m = message("00000000-0000-7000-8000-000000000002", "parts")
		m.Message.Parts = append(m.Message.Parts, &pb.Part{Content: &pb.Part_Url{Url: "holdfast-blob:x"}})
		if _, err := c.SendMessage(t.Context(), m); status.Code(err) != codes.InvalidArgument {
			t.Errorf("SendMessage() with a reference = %v, want an invalid argument", err)
		}
	}
}
