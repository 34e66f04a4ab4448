// Package memorytest is the conformance suite of package memory: [RunShortTerm] tests a store of
// session states, [RunLongTerm] a store of facts.
package memorytest
