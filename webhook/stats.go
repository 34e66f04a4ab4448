package webhook

// Stats has counters since the start of a service, and its current state.
type Stats struct {
	Delivered   int64 // delivered events
	Failed      int64 // failed attempts
	DeadLetters int64 // events that became dead letters

	InFlight         int   // lanes in progress
	Waiting          int   // claimed lanes that wait for a slot of their endpoint
	Claimed          int   // lanes claimed by this process, including InFlight and Waiting
	Memory           int64 // bytes reserved for requests
	WaitingForMemory int   // lanes in progress that wait for memory
	MemoryRefused    int64 // failed reservations of memory
	Open             int   // endpoints with an open circuit breaker
	Disabled         int   // disabled endpoints

	Expired Expired
}

// Expired counts records that were removed because their retention ended.
type Expired struct {
	Attempts    int64
	DeadLetters int64
	Webhooks    int64
}
