// Package embedding computes embeddings of texts with servers that have the API of OpenAI, such as
// OpenAI, Ollama, vLLM and llama.cpp. A [Client] is a vector.Embedder.
//
// The client splits texts into requests of bounded size, repeats requests that failed for the
// moment, and remembers the embeddings of recent texts. It connects only to the host of its URL,
// follows no redirects and ignores the proxy variables of the environment.
package embedding
