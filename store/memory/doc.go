// Package memory is the contract of what an agent remembers, apart from the messages of a
// conversation.
//
//   - [ShortTerm] stores the state of one session: a JSON object that is changed by merge
//     patches, such as the items of a cart.
//   - [LongTerm] stores facts that outlive a session and finds them by their text.
//
// [NewShortTerm] keeps states as records of a store (store.Records), so each backend has
// them. An operator's own implementation must pass the suite of package memorytest. Authors of
// stores of facts use package memorydriver, too.
package memory
