// Package ap2 has the objects of the Agent Payments Protocol (AP2) 0.1.0: what a
// shopper wants, what a merchant offers, and what was authorized to be paid.
//
// # Concepts
//
// The objects travel in [a2a.DataPart] values under the keys of [DataKey]. A user
// states an [IntentMandate]; a merchant answers with a [CartMandate], which holds
// a [PaymentRequest]; the user authorizes it with a [PaymentMandate], which holds
// a [PaymentResponse].
//
// # Guarantees
//
// Objects are written in snake_case, as AP2 does, and read in either spelling;
// null means absent. Amounts and times are kept as they came. Signatures are over
// the received text all the same: never hash an object that was written anew.
//
// Validate reports every rule that a value breaks, without looking at
// signatures. Rules that need the time take it as an argument.
//
// # Concurrency
//
// Values are plain data: safe for concurrent reading, not for concurrent writing.
package ap2
