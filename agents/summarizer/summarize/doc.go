// Package summarize is the core of an extractive document summarizer. It converts the bytes of a
// document to pages, pages to analyses, and analyses to the most relevant sentences. It does no
// I/O, reads no clock and keeps no state between calls.
//
// # Concepts
//
// A document is read in three steps, so that a durable run can commit after each page:
//
//	pages, err := summarize.Reader{}.Pages(ctx, name, mimeType, data)
//	analysis := summarize.Analyze(pages[i])      // one per page, committed
//	best := summarize.Summarize(analyses, n)     // once, at the end
//
// A [PageAnalysis] has all the data that [Summarize] needs of a page. The document is not needed
// again.
//
// # Guarantees
//
// All functions are deterministic on all platforms: they add floating-point numbers in a fixed
// order and round products before adding them. No input causes a panic. The context and
// [MaxPDFTime] limit the time of [Reader.Pages], [MaxDocumentBytes] and [MaxTextBytes] its memory.
//
// # Concurrency
//
// All functions are safe for concurrent use.
//
// # Errors
//
// [Reader.Pages] reports [ErrUnsupported], [ErrMalformed], [ErrEncrypted],
// [ErrTooLarge], [ErrNoText] or the cause of the context.
package summarize
