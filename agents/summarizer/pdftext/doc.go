// Package pdftext extracts the text of PDF documents that may be hostile.
//
// The library pdfcpu parses objects, decrypts and decompresses; this package interprets the page
// content and maps the codes of fonts to text. The bounds that the library lacks are here:
// every byte that it reads passes a reader with a budget that also fails once the context is done,
// and decoded streams, pages and text have limits. No input makes a function panic. Nothing is kept
// between calls, and all functions may be called concurrently.
package pdftext
