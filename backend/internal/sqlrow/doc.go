// Package sqlrow contains code that the SQL backends share: the row of a task, its columns and
// phases, and the encoded content of a change.
package sqlrow
