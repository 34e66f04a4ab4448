package sqltask

import "github.com/holdfast-dev/holdfast/internal/sqlkit"

// Statements returns the statements with a cost that does not depend on the size of the database. Tests of the
// backends check their plans.
func Statements() []sqlkit.Statement {
	return []sqlkit.Statement{
		{"feedback: lock the task", sqlLockTask},
		{"feedback: insert", sqlAddFeedback},
		{"feedback", sqlFeedback},
		{"feedback on a task", sqlTaskFeedback},
		{"removals", sqlRemovals},
		{"removals: forget", sqlForgetRemoval},
		{"endpoints: save", sqlSaveEndpoint},
		{"endpoints: remove", sqlDropEndpoint},
	}
}
