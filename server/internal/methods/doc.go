// Package methods implements the methods of A2A with an engine and a webhook service, for all
// transports. Each method is one binding for one descriptor of package a2a. Only convert.go
// converts the engine's types to the types of A2A.
package methods
