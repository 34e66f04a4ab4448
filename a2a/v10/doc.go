// Package v10 converts between the model of package a2a and A2A 1.0: the names of states and
// roles, and stream responses.
//
// # Guarantees
//
// A2A 1.0 has fewer states and roles than the model. Additional ones are mapped to the most
// similar name, and the original is stored in the metadata under [MetadataState] and
// [MetadataRole], so that two agents that support the extensions lose nothing. Metadata maps
// are never modified in place.
//
// # Concurrency
//
// All functions are safe for concurrent use.
package v10
