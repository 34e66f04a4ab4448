// Package v10 is the edge between the model of package a2a and A2A 1.0: the names
// of states and roles there.
//
// # Guarantees
//
// A2A 1.0 has fewer states and roles than the model. What it lacks is projected
// on its nearest name, and the original is kept in the metadata under
// [MetadataState] and [MetadataRole], so that two agents that know the
// extensions lose nothing. Metadata is never changed in place.
//
// # Concurrency
//
// All functions are safe for concurrent use.
package v10
