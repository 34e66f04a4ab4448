package transfer

// Counts are numbers of records by kind.
type Counts struct {
	Contexts      int64 `json:"contexts"`
	Tasks         int64 `json:"tasks"`
	Events        int64 `json:"events"`
	Feedback      int64 `json:"feedback"`
	Records       int64 `json:"records,omitempty"`
	Sessions      int64 `json:"sessions,omitempty"`
	Messages      int64 `json:"messages,omitempty"`
	Facts         int64 `json:"facts,omitempty"`
	Documents     int64 `json:"documents,omitempty"`
	Entities      int64 `json:"entities,omitempty"`
	Relationships int64 `json:"relationships,omitempty"`
	Blobs         int64 `json:"blobs,omitempty"`
	States        int64 `json:"states,omitempty"`
}

func (c *Counts) add(d Counts) {
	c.Contexts += d.Contexts
	c.Tasks += d.Tasks
	c.Events += d.Events
	c.Feedback += d.Feedback
	c.Records += d.Records
	c.Sessions += d.Sessions
	c.Messages += d.Messages
	c.Facts += d.Facts
	c.Documents += d.Documents
	c.Entities += d.Entities
	c.Relationships += d.Relationships
	c.Blobs += d.Blobs
	c.States += d.States
}

// Add adds another report.
func (r *Report) Add(o Report) {
	r.Document.add(o.Document)
	r.Written.add(o.Written)
	r.Queued += o.Queued
	r.Canceled += o.Canceled
	r.Notes = append(r.Notes, o.Notes...)
}

// Report is the result of an export or an import.
type Report struct {
	// Document counts the content of the documents.
	Document Counts `json:"document"`
	// Written counts the changes of an import to the store: created or continued contexts and
	// tasks, and added events and feedback. It is zero if the store had everything.
	Written Counts `json:"written"`
	// Queued is the number of unfinished tasks that were queued, Canceled the number of
	// unfinished tasks that were canceled.
	Queued   int64 `json:"queued"`
	Canceled int64 `json:"canceled"`
	// Notes are texts about parts of the documents that could not be imported.
	Notes []string `json:"notes,omitempty"`
}
