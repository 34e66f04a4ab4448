// Package runtime starts, supervises and stops the goroutines of long-lived components, such
// as the engine and the webhook service.
package runtime
