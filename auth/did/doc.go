// Package did implements decentralized identifiers (W3C DID Core 1.0) of agents and callers, and the signatures
// that agents of Bindu make with the keys of their DIDs.
//
// # Concepts
//
// A DID names an agent; its document lists the agent's public keys. Three methods are supported. A did:key is the
// key itself. A did:web is a document on the web server of its domain. A did:bindu names an author and an agent;
// its last part is derived from the key in some agents, and from the names in others, so that its key must be pinned.
// [Resolver] finds the document of a DID.
//
// Keys are Ed25519 or P-256. [Keys] are the keys of this agent: its replicas share them in the store, encrypted.
//
// # Guarantees
//
// Decoders read a bounded number of bytes and accept one spelling of each DID and each key. An error about input
// is an [a2a.Error] with a "reason" in its Data, and names the rule without the input's secrets.
//
// # Concurrency
//
// All functions, [Resolver] and [Keys] are safe for concurrent use.
package did
