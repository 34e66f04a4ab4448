// Package history defines the contract for transcripts: the messages of sessions, in order.
// The package does no I/O. Authors of stores use package historydriver, too.
//
// # Concepts
//
// A session belongs to an owner and an agent ([Key]) and holds messages ([Message]). The body of
// a message is JSON that the store does not interpret. A session exists from its first append
// until it is cleared or expires; a session that does not exist has no messages. A run is one
// execution of the agent within a session, so that [Provider.ClearRun] can remove its messages
// and leave the messages of other runs.
//
// [Provider] is the part that every store has. [Editor], [Pruner], [Searcher] and
// [SessionLister] are optional. The stores of this project implement all of them.
//
// # Guarantees
//
//   - An append stores all of its messages or none. They get consecutive sequences; the first
//     message of a session has sequence 1. Concurrent appends leave no gaps and no duplicates.
//   - A sequence is assigned once in the lifetime of a session. Removed messages leave gaps, so
//     cursors of readers and expected sequences keep their meaning after a removal.
//   - Bodies are returned byte for byte. Times have the precision of milliseconds.
//   - An expired session is not found, even before [Provider.Expire] removes its rows.
//   - A call never finds or changes data of another owner, agent or session.
//   - Stores share no memory with their callers.
//
// # Appends that fail or repeat
//
// An append checks its fence first ([ErrFenced]), then its idempotency key, then the expected
// sequence ([ErrConflict]). So a repeated append returns the first result although the session
// has grown, and an attempt that was fenced gets an error even if it repeats an append.
//
// Fences belong to a run. They exist from the first append or ClearRun that has one until the
// session is cleared or expires. An append without a fence to a run that has one is rejected.
// ClearRun forgets the idempotency keys of the run, so that another attempt can append again.
//
// # Tool calls
//
// A message names the tool calls that it makes and those that it answers. A result belongs to
// the nearest earlier message with its call, at most [MaxToolSpan] messages before it. A call,
// its results and all messages between them form a group. Groups that overlap are one group.
//
//   - With [Query.KeepToolPairs] a page consists of whole groups. A group that exceeds the limit
//     is returned as a whole if it is the only one of the page and its bodies have up to
//     [MaxPageBytes].
//   - [Pruner.Prune] removes whole groups, and only if each of their messages may be removed.
//
// # Search
//
// The text of a message consists of the strings in its body, without the names of members.
// [Text] returns it in the form in which stores compare it: without case, with each sequence of
// white space and control characters as one space, and not more than [MaxSearchText] bytes.
//
// # Concurrency
//
// All methods of a store are safe for concurrent use.
//
// # Errors
//
// Invalid params get an error with code invalid_params that names the field and the rule. Errors of the
// backend have the codes unavailable, exhausted or internal; a call then changed nothing, unless
// its method documents otherwise. If the context of a call is done, the call returns the
// context's error.
package history
