package embedding

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

func encode(model string, dimensions int, texts []string) ([]byte, error) {
	return json.Marshal(struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Format     string   `json:"encoding_format"`
		Dimensions int      `json:"dimensions,omitempty"`
	}{model, texts, "float", dimensions})
}

// decode returns the embeddings of a response to a number of texts. dimensions is their number of
// components, 0 if it is not known.
func decode(data []byte, texts, dimensions int) ([][]float32, error) {
	invalid := func(format string, args ...any) ([][]float32, error) {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "embedding: response: "+format, args...)
	}
	var response struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return invalid("%v", err)
	}
	if len(response.Data) != texts {
		return invalid("has %d embeddings for %d texts", len(response.Data), texts)
	}
	all := make([][]float32, texts)
	for i, d := range response.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		switch {
		case at < 0 || at >= texts || all[at] != nil:
			return invalid("index %d is repeated or out of range", at)
		case len(d.Embedding) == 0 || len(d.Embedding) != len(response.Data[0].Embedding):
			return invalid("embeddings have %d and %d components", len(response.Data[0].Embedding), len(d.Embedding))
		case dimensions > 0 && len(d.Embedding) != dimensions:
			return invalid("embeddings have %d components, want %d", len(d.Embedding), dimensions)
		}
		all[at] = d.Embedding
	}
	return all, nil
}

// reason returns the message of an error of the server, without the key.
func (c *Client) reason(data []byte) string {
	var response struct {
		Error any `json:"error"`
	}
	if json.Unmarshal(data, &response) != nil {
		return ""
	}
	text, _ := response.Error.(string)
	if object, ok := response.Error.(map[string]any); ok {
		text, _ = object["message"].(string)
	}
	if text == "" {
		return ""
	}
	if c.cfg.Key != "" {
		text = strings.ReplaceAll(text, c.cfg.Key, "***")
	}
	return ": " + a2a.Quote(text)
}
