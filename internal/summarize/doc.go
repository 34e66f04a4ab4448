// Package summarize is the pure core of an extractive document summarizer: it
// turns the bytes of a document into pages, pages into analyses, and analyses
// into the sentences that say most about the document. It performs no I/O,
// reads no clock and keeps no state between calls.
//
// # Concepts
//
// A document is read in three steps, so that a durable run can commit after
// each page:
//
//	pages, err := summarize.Pages(ctx, name, mimeType, data)
//	analysis := summarize.Analyze(pages[i])      // one per page, committed
//	best := summarize.Summarize(analyses, n)     // once, at the end
//
// A [PageAnalysis] holds all that [Summarize] needs of its page; the document
// itself is not needed again.
//
// # Guarantees
//
// Every function is deterministic, across platforms too: floating-point sums
// run in a fixed order and products are rounded before they are added. No
// input makes a function panic. [Pages] is bounded in time by its context and
// by [MaxPDFTime], and in memory by [MaxDocumentBytes] and [MaxTextBytes].
//
// # Concurrency
//
// All functions may be called concurrently.
//
// # Errors
//
// [Pages] reports [ErrUnsupported], [ErrMalformed], [ErrEncrypted],
// [ErrTooLarge], [ErrNoText] or the cause of the context.
package summarize
