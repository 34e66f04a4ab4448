// Package memorytest is the conformance suite of package memory.
package memorytest
