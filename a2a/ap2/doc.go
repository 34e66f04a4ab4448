// Package ap2 defines the objects of the Agent Payments Protocol (AP2) 0.1.0: a shopper's
// intent, a merchant's offer, and the authorization of a payment.
//
// # Concepts
//
// The objects are sent in [a2a.DataPart] values under the keys of [DataKey]. A user states an
// [IntentMandate]. A merchant responds with a [CartMandate], which contains a
// [PaymentRequest]. The user authorizes it with a [PaymentMandate], which contains a
// [PaymentResponse].
//
// # Guarantees
//
// Objects are written in snake_case, as AP2 specifies, and accepted in snake_case and
// camelCase; null means absent. Amounts and times are kept as received. Signatures
// nevertheless apply to the received text: never compute the hash of a re-encoded object.
//
// Validate reports all violated rules, without verifying signatures. Rules that depend on the
// time take it as an argument.
//
// # Concurrency
//
// Values are plain data: concurrent reads are safe, concurrent writes are not.
package ap2
