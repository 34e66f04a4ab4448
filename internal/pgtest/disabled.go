//go:build !services

package pgtest

// Enabled reports whether tests were built with the tag "services", which adds the tests that need servers of other projects.
const Enabled = false
