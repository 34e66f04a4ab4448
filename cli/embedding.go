package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holdfast-dev/holdfast/embedding"
)

// embeddingFlags name the model that computes embeddings of facts and documents.
type embeddingFlags struct {
	EmbeddingURL        string `placeholder:"URL" envvar:"" also:"EMBEDDING_URL" group:"Embeddings:" help:"Server with the embeddings API of OpenAI, such as https://api.openai.com/v1 or http://localhost:11434/v1. Facts and documents are then found by meaning too (default none: by words)."`
	EmbeddingModel      string `placeholder:"NAME" envvar:"" also:"EMBEDDING_MODEL" group:"Embeddings:" help:"Model of embeddings, such as text-embedding-3-small. Required with --embedding-url."`
	EmbeddingKey        string `secret:"" placeholder:"KEY" envvar:"" also:"EMBEDDING_KEY" group:"Embeddings:" help:"Key of the server, sent as bearer token. Prefer the variable: other users can see command lines."`
	EmbeddingDimensions int    `placeholder:"N" envvar:"" also:"EMBEDDING_DIMENSIONS" group:"Embeddings:" help:"Number of components of an embedding (default that of the model)."`
}

// embedder returns the embedder that the flags name, nil if they name none.
func (f *embeddingFlags) embedder(a *app) (*embedding.Client, error) {
	if f.EmbeddingURL == "" {
		var errs []error
		for _, flag := range []struct {
			name string
			set  bool
		}{{"embedding-model", f.EmbeddingModel != ""}, {"embedding-key", f.EmbeddingKey != ""}, {"embedding-dimensions", f.EmbeddingDimensions != 0}} {
			if flag.set && a.set.origins[flag.name].rank != byDefault {
				errs = append(errs, fmt.Errorf("--%s needs --embedding-url", flag.name))
			}
		}
		return nil, errors.Join(errs...)
	}
	if f.EmbeddingModel == "" {
		return nil, errors.New("--embedding-url needs --embedding-model: the name of the model at that URL")
	}
	c, err := embedding.New(embedding.Config{URL: f.EmbeddingURL, Model: f.EmbeddingModel, Key: f.EmbeddingKey, Dimensions: f.EmbeddingDimensions})
	if err == nil {
		return c, nil
	}
	text := err.Error()
	for from, to := range map[string]string{"embedding: URL:": "--embedding-url", "embedding: Model:": "--embedding-model", "embedding: Key:": "--embedding-key", "embedding: Dimensions:": "--embedding-dimensions"} {
		text = strings.ReplaceAll(text, from, to)
	}
	return nil, errors.New(text)
}

// probeEmbedder logs whether the embedder responds. If it does not, the agent still works, and
// searches by words.
func (s *storage) probeEmbedder(ctx context.Context, log *slog.Logger) {
	if s.embedder == nil {
		return
	}
	if _, err := s.embedder.Embed(ctx, []string{"holdfast"}); err == nil {
		log.Info("embedder responds", "model", s.embedder.Name())
	} else if ctx.Err() == nil {
		log.Warn("embedder failed; searches use words until it responds", "model", s.embedder.Name(), "error", err)
	}
}
