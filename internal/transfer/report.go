package transfer

// Counts is how much there is of each kind.
type Counts struct {
	Contexts int64 `json:"contexts"`
	Tasks    int64 `json:"tasks"`
	Events   int64 `json:"events"`
	Feedback int64 `json:"feedback"`
}

func (c *Counts) add(d Counts) {
	c.Contexts += d.Contexts
	c.Tasks += d.Tasks
	c.Events += d.Events
	c.Feedback += d.Feedback
}

// Report says what an export or an import has done.
type Report struct {
	// Document counts what the documents hold.
	Document Counts `json:"document"`
	// Written counts what an import has changed in the store: contexts and tasks made
	// or gone on with, and what was added to them. All zero: everything was there.
	Written Counts `json:"written"`
	// Queued is how many of the tasks written are to run, Canceled how many were
	// canceled because they were not finished.
	Queued   int64 `json:"queued"`
	Canceled int64 `json:"canceled"`
	// Notes tell people what of a document is not as it says, and why.
	Notes []string `json:"notes,omitempty"`
}
