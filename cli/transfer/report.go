package transfer

import "github.com/holdfast-dev/holdfast/store/contract"

// Names of counts of a [Report]. The counts of a contract's data have the names of its kind.
const (
	Contexts = "contexts"
	Tasks    = "tasks"
	Events   = "events"
	Feedback = "feedback"
	Records  = "records"
)

// Report is the result of an export or an import.
type Report struct {
	// Document counts the content of the documents.
	Document contract.Counts `json:"document"`
	// Written counts the changes of an import to the store: created or continued contexts and
	// tasks, and added events, feedback, records and data of contracts. It is empty if the store had
	// everything.
	Written contract.Counts `json:"written"`
	// Queued is the number of unfinished tasks that were queued, Canceled the number of
	// unfinished tasks that were canceled.
	Queued   int64 `json:"queued"`
	Canceled int64 `json:"canceled"`
	// Notes are texts about parts of the documents that could not be imported.
	Notes []string `json:"notes,omitempty"`
}

// Add adds another report.
func (r *Report) Add(o Report) {
	r.Document.AddAll(o.Document)
	r.Written.AddAll(o.Written)
	r.Queued += o.Queued
	r.Canceled += o.Canceled
	r.Notes = append(r.Notes, o.Notes...)
}
